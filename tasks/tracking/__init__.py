"""The only door to MLflow: the run of a pipeline run, live metrics of a stage, the registry."""
