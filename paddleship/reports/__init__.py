"""What a stage leaves behind: findings, verdicts, and the report that holds them."""
