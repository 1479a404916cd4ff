"""Asking a server what a stranger would ask it, with a client that shares no code with it."""
