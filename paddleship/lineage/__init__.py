"""Custody by digest, and the lineage of an image."""
