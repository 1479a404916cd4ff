"""How large the images are, how fast they start, and what a new model costs."""
