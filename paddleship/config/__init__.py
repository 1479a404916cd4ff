"""params.yaml: every value that a user may set, and the checks that run before any work starts."""
