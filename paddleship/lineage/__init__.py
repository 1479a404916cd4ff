"""Custody by digest, and where an image comes from."""
