"""What a server counts: the metrics of a process, their families and text form, and the sum over the processes of a server."""
