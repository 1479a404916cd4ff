"""Distances between arrays, in one place."""
