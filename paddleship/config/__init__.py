"""params.yaml: every value that a user may set, and what is refused before any work starts."""
