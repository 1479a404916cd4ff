"""Servers of a checkout: Prefect and MLflow on loopback, and where they keep their state."""
