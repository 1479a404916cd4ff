"""The linear model of a task, fitted on as much of the training part as takes seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.model.training import Split
from paddleship.scoring.features import Features, readable, sizes
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.references import explain

_MOST = 8_000_000  # characters and numbers of the training rows that are read, times the numbers that are predicted for a row
_BUCKETS, _WEIGHTS = 2**18, 2**21  # features of the texts of a column, and weights of the model
_FEWEST_BUCKETS = 2**10


@dataclass(frozen=True)
class Linear:
    """The outputs of the linear model by part; empty if there is none, for the reason in `note`, which also names a cap."""

    outputs: Mapping[str, Any]
    note: str = ""
    rows: int = 0
    seconds: float = 0.0


def fit(kind: TaskKind, preprocess: Preprocess, rows: Mapping[str, Rows], splits: Mapping[str, Split]) -> Linear:
    """Fit it on the training rows, and ask it the others. It never raises an error: `note` says what failed."""
    try:
        return _fit(kind, preprocess, rows, splits)
    except Exception as failure:  # a comparison is not worth a trained model
        return Linear({}, f"the linear model failed ({explain(failure)})")


def _fit(kind: TaskKind, preprocess: Preprocess, rows: Mapping[str, Rows], splits: Mapping[str, Split]) -> Linear:
    labels = splits["train"].labels
    size = kind.linear.size(labels) if kind.linear else 0
    encoders = [one for one in preprocess.encoders if readable(one)]
    if kind.linear is None or not size:
        return Linear({}, f"there is no linear model of such labels of a {kind.name} task")
    if not encoders:
        return Linear({}, "there is no linear model of such inputs")
    started = time.perf_counter()
    count = max(1, int((sizes(encoders, rows["train"]).cumsum() <= _MOST // size).sum()))  # rows are in the order of their hashes
    buckets = max(_FEWEST_BUCKETS, min(_BUCKETS, 2 ** int(np.log2(_WEIGHTS // size or 1))))
    features = Features(encoders, buckets=buckets)
    answer = kind.linear.fit(features.fit(rows["train"], splits["train"], count), labels[:count])
    outputs = {part: features.answers(answer, rows[part], splits[part]) for part in rows if part != "train"}
    left_out = [one.spec.name for one in preprocess.encoders if not readable(one)]
    notes = [f"without the inputs {', '.join(left_out)}"] if left_out else []
    notes += [f"fitted on {count:,} of {len(labels):,} training rows"] if count < len(labels) else []
    return Linear(outputs, "; ".join(notes), count, time.perf_counter() - started)
