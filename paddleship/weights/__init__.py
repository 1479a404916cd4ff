"""Compare the weights in a candidate's files with the checkpoint, one by one."""
