"""The user's eager model: build it, train it, and run it in float32 and float64."""
