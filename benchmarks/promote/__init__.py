"""Promotion and rollback under a load that never stops."""
