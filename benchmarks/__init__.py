"""Programs that measure paddleship itself: what it proves, what it refuses, and whether its choices are right."""
