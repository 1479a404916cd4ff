"""Faults on purpose, and whether the same command again ends in the right state."""
