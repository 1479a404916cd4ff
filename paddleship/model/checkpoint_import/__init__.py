"""Weights from a file that another program wrote: read without running code from it, and matched with the user's model."""
