"""Order, retries, parameters: Prefect and DVC live here and nowhere else."""
