"""Programs that measure paddleship itself: whether it finds faults, converts models, chooses well, and measures correctly."""
