"""An MLflow client that gives up quickly, and metrics that both runs and stages log."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from paddleship.errors import PaddleshipError, Unavailable, without_credentials
from paddleship.tracking import store

OF_VALIDATION_ROWS, OF_TEST_ROWS = "train/validation_", "train/test_"  # prefixes of a run's metrics


class DeletedExperiment(Unavailable):
    """The experiment that runs go to was deleted in MLflow, which keeps it and its name."""


def connect(uri: str) -> Any:
    """An MlflowClient for tracking and registry that does not retry for minutes. Raises Unavailable if a SQLite store cannot be used."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    import logging

    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    store.prepare(uri)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@contextmanager
def reached(uri: str) -> Iterator[None]:
    """A block in which an MLflow that does not answer, or refuses a request, raises Unavailable."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:
        raise Unavailable(describe_error(uri, error, then="run the same command")) from error


def describe_error(uri: str, error: BaseException, *, then: str) -> str:
    """What is wrong with MLflow and the next step: it does not answer, it refused a request, or something must be done first."""
    from mlflow.tracking.registry import UnsupportedModelRegistryStoreURIException

    if isinstance(error, PaddleshipError):
        return f"{error}, then {then}"
    if isinstance(error, UnsupportedModelRegistryStoreURIException):
        return f"{without_credentials(uri)} is no address of an MLflow: correct MLFLOW_TRACKING_URI, then {then}"
    where = f"MLflow at {without_credentials(uri)}"
    if _is_silent(error):
        return f"{where} does not answer as it should ({reason(error)}): start it (`make ui`), then {then}"
    return f"{where} refused a request ({reason(error)}): see its log, then {then}"


def _is_silent(error: BaseException) -> bool:
    """Whether no answer came, rather than one that refuses: the errors of an answer have a code of MLflow's own."""
    from mlflow.exceptions import MlflowException

    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError):
            return True
        behind = behind.__cause__ or behind.__context__
    return not isinstance(error, MlflowException) or error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE")


def reason(error: BaseException) -> str:
    """Why MLflow did not answer, without credentials: the system's message, such as "Connection refused", if that is behind the error."""
    first, behind = error, error.__cause__ or error.__context__
    while behind is not None:
        first = behind if isinstance(behind, OSError) else first
        behind = behind.__cause__ or behind.__context__
    return textwrap.shorten(without_credentials(str(first)), 200, placeholder=" …")


def scores(metrics: Iterable[str]) -> list[str]:
    """Those of these metrics by which training is judged: on the validation rows, by which runs are compared, and then on the test rows."""
    keys = list(metrics)
    return [key for part in (OF_VALIDATION_ROWS, OF_TEST_ROWS) for key in keys if key.startswith(part) and key != f"{part}loss"]


def score_names(metrics: Iterable[str]) -> tuple[str, str] | None:
    """The metrics that are the score on the validation rows, and the same score on the test rows; None without a score."""
    validation = next((key for key in scores(metrics) if key.startswith(OF_VALIDATION_ROWS)), None)
    return (validation, f"{OF_TEST_ROWS}{validation.removeprefix(OF_VALIDATION_ROWS)}") if validation else None


def epoch_metrics(epochs: list[Any], *, first: int, at_ms: int) -> list[Any]:
    """The flat metrics of each epoch as points of one curve per key."""
    from mlflow.entities import Metric

    return [Metric(f"epoch/{key}", float(value), at_ms, first + index) for index, row in enumerate(epochs) for key, value in row.items()]
