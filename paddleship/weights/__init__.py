"""Compare the weights in a candidate's files with the checkpoint, each in its place."""
