"""Prove that candidates answer as the eager model does."""
