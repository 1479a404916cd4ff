"""The only package that uses MLflow: pipeline runs, live metrics of a stage, the registry."""
