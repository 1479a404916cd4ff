"""Checkpoints and exported files as people have them: each goes by `paddleship run` to an accepted image, or to one right line."""
