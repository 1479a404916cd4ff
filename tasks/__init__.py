"""Verbs: one stage per file, run with `python -m tasks.<verb>`; and the only modules that use MLflow, Docker and git."""
