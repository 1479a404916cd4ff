"""Apply a decision about a promotion: registry, Docker host, Kubernetes, rollback."""
