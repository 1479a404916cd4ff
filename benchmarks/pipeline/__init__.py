"""The seconds that orchestration, tracking and versioning add to the bare stages."""
