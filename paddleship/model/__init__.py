"""The user's eager model: built, trained, and asked in float32 and float64."""
