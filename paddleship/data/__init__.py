"""Rows: read, validated, split, and compared across the splits."""
