"""The decision of a task kind, in the file of the kind (docs/how-to/add-task-kind.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def nothing(_output: Array) -> None:
    """No decision, whatever the output is."""


@dataclass(frozen=True)
class Decision:
    """What the first output of a model decides. `name` is the value of data.task, `labels` says what a label is.

    `decide(output)` returns the decisions of the rows along the first axis, or None if this output decides nothing; several rows or a
    single one. `names(decisions, classes)` returns the text that a server answers as `label`, one for each row; without it, a server
    answers no label. `joint`: the decisions along the last axis are one, such as a set of labels.
    """

    name: str
    labels: str
    decide: Callable[[Array], Array | None] = nothing
    names: Callable[[Array, Sequence[str]], list[str]] | None = None
    joint: bool = False
