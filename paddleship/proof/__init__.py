"""Whether a candidate answers as right as the eager model does."""
