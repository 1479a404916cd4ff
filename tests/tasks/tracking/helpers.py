"""What is in a store, as MLflow tells it."""


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def runs(uri, query=""):
    api = client(uri)
    experiment = api.get_experiment_by_name("reviews")
    return api.search_runs([experiment.experiment_id], query)


def children(uri, run_id):
    return {run.data.tags["variant"]: run for run in runs(uri, f"tags.`mlflow.parentRunId` = '{run_id}'")}
