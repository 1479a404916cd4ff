"""Hidden influences: what the eager model reads besides its inputs, and whether its answers depend on it."""
