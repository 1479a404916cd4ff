"""Check whether and how a model converts."""
