"""The model server: an ASGI app over one candidate."""
