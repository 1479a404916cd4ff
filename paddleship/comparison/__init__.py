"""Two images side by side, whoever made them: their answers to the same rows, their speed, and how they start."""
