"""Verbs: one stage a file, each runnable by `python -m tasks.<verb>`; and the doors to MLflow, Docker and git."""
