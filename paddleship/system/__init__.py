"""The machine and its processes: hosts, children, deadlines, progress."""
