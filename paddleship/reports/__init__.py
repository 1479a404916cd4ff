"""The results of a stage: findings, verdicts, and the report that holds them."""
