"""Features of a row: a few numbers that say what a row is like, for comparing requests with the training rows.

The same code describes the training rows and, in a server, the requests. It reads what the model reads, after the preprocess, and
gives lengths, means and single numbers, never text. This module goes into the image, so it needs only numpy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from paddleship.shipped.computing.preprocess import Example, build
from paddleship.shipped.computing.preprocess.measures import MOST_COLUMNS
from paddleship.shipped.computing.spec import TensorSpec

MOST_FEATURES = MOST_COLUMNS  # of a model; further columns are not watched


@dataclass(frozen=True)
class Bins:
    """The bins of one feature. Bin 0 is below `low`, the last one above `high`; between them `cuts` are the upper ends of the bins.

    If `values` is given, each of them has a bin of its own, and the last bin is for all others.
    """

    name: str
    low: float = 0
    high: float = 0
    cuts: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.values) + 1 if self.values else len(self.cuts) + 3

    def index(self, value: float) -> int:
        """The bin of a value."""
        if self.values:
            place = bisect_left(self.values, value)
            return place if place < len(self.values) and self.values[place] == value else len(self.values)
        if value < self.low:
            return 0
        return len(self) - 1 if value > self.high else 1 + bisect_left(self.cuts, value)

    @property
    def unseen(self) -> tuple[int, ...]:
        """The bins of values that no training row has."""
        return (len(self.values),) if self.values else (0, len(self) - 1)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "cuts": list(self.cuts), "values": list(self.values)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Bins:
        return cls(value["name"], value["low"], value["high"], tuple(value["cuts"]), tuple(value["values"]))


class Features:
    """The features of a model's rows. `names` are those that are measured, `left_out` those beyond MOST_FEATURES."""

    def __init__(self, specs: Sequence[TensorSpec], preprocess: Mapping[str, Any]) -> None:
        encoders = build(preprocess, specs).encoders
        values = [(one.column, name, measure) for one in encoders for name, measure in one.value_features()]
        found = [(one.spec.name, name, measure) for one in encoders for name, measure in one.features()]
        self._of_values = values[:MOST_FEATURES]
        self._kept = found[: MOST_FEATURES - len(self._of_values)]
        names = [name for _, name, _ in (*values, *found)]
        self.names, self.left_out = tuple(names[:MOST_FEATURES]), tuple(names[MOST_FEATURES:])

    def of_values(self, columns: Mapping[str, Sequence[Any]], row: int) -> list[float]:
        """The features of one row that its values show before they are encoded: the first of `names`."""
        return [_finite(measure(columns[column][row])) for column, _, measure in self._of_values]

    def of(self, example: Example, of_values: Sequence[float] = ()) -> list[float]:
        """The value of every feature of one row, finite, in the order of `names`; `of_values` are those before encoding."""
        with np.errstate(all="ignore"):
            return [*of_values, *(_finite(measure(example[given])) for given, _, measure in self._kept)]


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0 if math.isnan(value) else math.copysign(1.7e308, value)
