"""The lineage of an image."""
