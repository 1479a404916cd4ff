"""Whether the files of a candidate hold the checkpoint's weights, each in its place."""
