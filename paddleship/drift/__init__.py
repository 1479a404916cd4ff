"""Data drift: whether the features of requests are distributed as those of the training rows."""
