"""A specimen of the zoo: a model, its inputs, and its expected outcome.

The line that a finding must name is marked in the model's source with a trailing comment `# <- KIND`, so that the expectation moves with
the line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddleship.config.sections.model import Input, Model
from paddleship.reports.statuses import Status

PROVEN = Status.PROVEN
_MARK = re.compile(r"#.*<- ([a-z-]+)")


@dataclass(frozen=True)
class Specimen:
    """One model of the zoo.

    `finding` is the expected kind, at the marked line if there is one; empty for a model without errors. `proven` and `refused` name
    runtimes that must and must not be proven; others may be either. `also` are further kinds that are true of the model.
    """

    name: str
    model: Model
    because: str
    finding: str = ""
    proven: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    source: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    @property
    def expected(self) -> str:
        return self.finding or PROVEN

    def place(self) -> str | None:
        """`file:line` of the mark for `finding` in the model's source; None if no line is expected."""
        if self.source is None:
            return None
        lines, first = inspect.getsourcelines(self.source)
        for number, line in enumerate(lines, start=first):
            if (mark := _MARK.search(line)) and mark[1] == self.finding:
                return f"{Path(inspect.getfile(self.source)).name}:{number}"
        return None


def specimen(
    source: Callable[..., Any],
    *inputs: Input,
    because: str,
    finding: str = "",
    proven: tuple[str, ...] | None = None,
    refused: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    kwargs: dict[str, Any] | None = None,
    absent: tuple[str, ...] = (),
) -> Specimen:
    """The specimen of a class or factory in a module of the zoo; without a finding it must be proven in Paddle at least."""
    model = Model(factory=f"{source.__module__}:{source.__qualname__}", kwargs=kwargs or {}, inputs=list(inputs), absent=list(absent))
    must = proven if proven is not None else () if finding else ("paddle",)
    return Specimen(source.__name__, model, because, finding, must, refused, also, source)


def floats(name: str, *shape: int | str, low: float | None = None, high: float | None = None) -> Input:
    """A float32 input whose first dimension is the batch."""
    return Input(name=name, dtype="float32", shape=["batch", *shape], low=low, high=high)


def image(size: int = 32, channels: int = 3) -> Input:
    return floats("image", channels, size, size)


def ids(name: str, count: int, *shape: int | str, low: int = 0) -> Input:
    """An int64 input of ids below `count`."""
    return Input(name=name, dtype="int64", shape=["batch", *shape], low=low, high=count - 1)


def flags(name: str, *shape: int | str) -> Input:
    """A bool input."""
    return Input(name=name, dtype="bool", shape=["batch", *shape])
