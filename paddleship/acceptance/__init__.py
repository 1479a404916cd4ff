"""Acceptance tests of a server, with a client that shares no code with it."""
