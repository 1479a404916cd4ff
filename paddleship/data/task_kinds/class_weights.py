"""Weights of classes in the losses of the task kinds: a row counts as often as its class weighs, divided by the number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.data.task_kinds.positions import PADDING, at
from paddleship.data.task_kinds.registration import ClassWeights
from paddleship.shipped.computing.task_kinds.registration import Array


def _inverse(labels: Array, count: int) -> Array:
    """Weights with which all classes that have a label count alike, and with a mean of 1 over the labels; 1 for other classes."""
    numbers = np.bincount(labels.ravel(), minlength=count)
    weights: Array = np.where(numbers > 0, labels.size / (np.maximum(numbers, 1) * (numbers > 0).sum()), 1.0)
    return weights


def _of_positives(labels: Array, _count: int) -> Array:
    """Rows without each label for one with it; 1 for a label that no row or every row has."""
    positives = labels.sum(0)
    mixed = (positives > 0) & (positives < len(labels))
    weights: Array = np.where(mixed, (len(labels) - positives) / np.maximum(positives, 1), 1.0)
    return weights


def _of_rows(output: Any, labels: Any, weights: Any) -> Any:
    from paddle.nn import functional

    losses = functional.cross_entropy(output, labels, reduction="none").reshape(labels.shape)
    return (losses * weights[labels]).mean()


def _of_tags(output: Any, labels: Any, weights: Any) -> Any:
    from paddle.nn import functional

    known = labels != PADDING
    losses = functional.cross_entropy(output, labels, ignore_index=PADDING, reduction="none").reshape(labels.shape)
    return (losses * weights[labels * known.astype(labels.dtype)]).sum() / known.astype(output.dtype).sum()


def _of_labels(output: Any, labels: Any, weights: Any) -> Any:
    from paddle.nn import functional

    return functional.binary_cross_entropy_with_logits(output, labels.astype(output.dtype), pos_weight=weights)


CLASSES = ClassWeights(_inverse, _of_rows)
TAGS = ClassWeights(lambda labels, count: _inverse(at(labels, labels), count), _of_tags)
LABELS = ClassWeights(_of_positives, _of_labels)
