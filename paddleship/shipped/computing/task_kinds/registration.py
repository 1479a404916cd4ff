"""The decision of a task kind, in the file of the kind: here or in a user's package (docs/how-to/add-task-kind.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Positions = Sequence[tuple[int, int]]  # of one row: the part of its value, from start to end, that each position was made from


def nothing(_output: Array) -> None:
    """No decision, whatever the output is."""


def with_functions(task: str, functions: Mapping[str, str]) -> str:
    """The name of a task with its functions, which every process that reads it can find."""
    return " ".join([task, *(f"{part}={functions[part]}" for part in sorted(functions))])


def functions_of(name: str) -> tuple[str, dict[str, str]]:
    """The task and the functions of a name that `with_functions` made; most names have none."""
    task, *functions = name.split(" ")
    return task, dict(function.split("=", 1) for function in functions if "=" in function)


@dataclass(frozen=True)
class Decision:
    """What the first output of a model decides. `name` is the value of data.task, `labels` says what a label is.

    `decide(output)` returns the decisions of the rows along the first axis, or None if this output decides nothing; several rows or a
    single one. `names(decisions, classes)` returns the text that a server answers as `label`, one for each row; without it, a server
    answers no label. `joint`: the decisions along the last axis are one, such as a set of labels.

    `steps`: rows may have different sizes along the second axis of the first output, and are padded there with zeros, which decide nothing.
    `beside`: the number of scores that belong to no class, before those of the classes.

    `per_position`: each position of a row has a decision, such as a tag for each character, along the second axis. Rows are padded there,
    so `names(decisions, classes, positions)` also gets the positions of each row.

    `scored` are the kinds of answers that read its scores (paddleship.shipped.computing.answers). `functions` are those of the user that
    data.task then names in place of the task, as a mapping, and whether each is needed. `reads` is "logits" or "probabilities" if a score
    of the other form would be decided wrongly.
    """

    name: str
    labels: str
    decide: Callable[[Array], Array | None] = nothing
    names: Callable[..., list[str]] | None = None
    joint: bool = False
    steps: bool = False
    beside: int = 0
    per_position: bool = False
    scored: tuple[str, ...] = ()
    functions: Mapping[str, bool] = field(default_factory=dict)
    reads: str = ""

    @property
    def padded(self) -> bool:
        """Whether rows may have different sizes along the second axis of the first output."""
        return self.steps or self.per_position

    def form(self, classes: int) -> tuple[str | int, ...]:
        """The shape of an output with one score for each class."""
        along = ("positions",) if self.per_position else ("steps",) if self.steps else ()
        return ("batch", *along, classes + self.beside)

    def scores(self, shape: Sequence[str | int], classes: int) -> bool:
        """Whether an output of this shape has one score for each class."""
        form = self.form(classes)
        return len(shape) == len(form) and shape[-1] == form[-1]

    def answers(self, output: Array, classes: Sequence[str], positions: Sequence[Positions] = ()) -> list[str]:
        """The text that a server answers as `label` for each row of an output; empty if there is none."""
        decided = self.decide(output)
        if self.names is None or decided is None:
            return []
        return self.names(decided, classes, positions) if self.per_position else self.names(decided, classes)
