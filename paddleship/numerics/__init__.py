"""All distances between arrays."""
