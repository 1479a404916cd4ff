"""Variants of the params: which ones there are, which come next, and which one is best."""
