"""Carry a decision of a promotion out: registry, Docker host, Kubernetes, rollback."""
