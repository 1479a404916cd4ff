"""The linear models of the task kinds, by scikit-learn. They are deterministic, and draw no random numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from paddleship.data.task_kinds.registration import Answering, LinearModel
from paddleship.shipped.computing.task_kinds.registration import Array

_ITERATIONS = 100


def one_hot(classes: Array, count: int) -> Array:
    """Outputs that choose these classes."""
    chosen: Array = np.asarray(classes)[:, None] == np.arange(count)
    return chosen


def _classify(features: Any, labels: Array) -> Answering:
    model = _logistic(features, labels)
    return lambda asked: one_hot(model.predict(asked), max(2, int(labels.max()) + 1))


def _label(features: Any, labels: Array) -> Answering:
    """A classifier for each label; a label that all training rows have or lack is answered as it is there."""
    models = [_logistic(features, column) if column.min() < column.max() else None for column in labels.T]
    constant = np.where(labels.min(0) > 0, 1.0, -1.0)

    def answer(asked: Any) -> Array:
        columns = [
            model.decision_function(asked) if model else np.full(asked.shape[0], constant[index]) for index, model in enumerate(models)
        ]
        return np.stack(columns, axis=1)

    return answer


def _regress(features: Any, labels: Array) -> Answering:
    from sklearn.linear_model import Ridge

    model = _quietly(Ridge().fit, features, _flat(labels))
    return lambda asked: np.reshape(model.predict(asked), (asked.shape[0], *labels.shape[1:]))


def _logistic(features: Any, labels: Array) -> Any:
    from sklearn.linear_model import LogisticRegression

    return _quietly(LogisticRegression(max_iter=_ITERATIONS).fit, features, labels)


def _quietly(fit: Callable[[Any, Array], Any], features: Any, labels: Array) -> Any:
    """Fit without scikit-learn's warnings, such as that the last iterations still changed something."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(features, labels)


def _flat(labels: Array) -> Array:
    return labels.reshape(len(labels), -1)


def _classes(labels: Array) -> int:
    """Two classes need one number, and a class for each part of a row is not supported."""
    if labels.ndim > 1:
        return 0
    count = len(np.unique(labels))
    return 1 if count == 2 else count


CLASSIFIER = LinearModel(_classify, _classes)
LABELS = LinearModel(_label, lambda labels: labels.shape[1])
REGRESSOR = LinearModel(_regress, lambda labels: _flat(labels).shape[1])
