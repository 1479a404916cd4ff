"""Categories: a name from a small set becomes its id, such as for an embedding. Requests and data hold the name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, fitted, param
from paddleship.shipped.computing.preprocess.text import UnicodeForm, normalise
from paddleship.shipped.computing.spec import BATCH, TensorSpec

_LONGEST_NAME = 256


@dataclass(frozen=True, kw_only=True)
class Categories(InputEncoder):
    """A name to its id; `names` has those of the training rows, most frequent first. With `unknown`, their ids begin at 1."""

    quick: ClassVar[bool] = True

    unicode_form: UnicodeForm | None = param("Unicode normal form applied to names; null: none", "NFKC")
    unknown: bool = param("give id 0 to names that are not kept; false: refuse them", True)
    most: int = param("number of names that are kept", 10_000, at_least=1, only_params=True)
    empty: bool = param(
        "take a missing name as a category of its own, if training rows lack it; false: drop such rows", False, only_params=True
    )
    names: Sequence[str] = fitted(())

    def __post_init__(self) -> None:
        if self.spec.numpy_dtype.kind not in "iu" or len(self.spec.shape) != 1:
            raise DataError(
                f"a category is one integer, and model.inputs gives {self.spec.name!r} {self.spec.dtype} {list(self.spec.shape)}: declare "
                f"int64 [{BATCH}]"
            )

    @cached_property
    def request(self) -> TensorSpec:
        return TensorSpec(self.column, "str", (BATCH,))

    @property
    def content(self) -> Content | None:
        return Content.CATEGORY

    @property
    def longest_text(self) -> int:
        return _LONGEST_NAME

    @property
    def takes_empty(self) -> bool:
        return self.empty

    def as_text(self, value: Any) -> Any:
        return "" if value is None and self.empty else value

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index + self.unknown for index, name in enumerate(self.names)}

    def same(self, value: Any) -> Any:
        return normalise(value, self.unicode_form)

    def fit(self, values: Sequence[Any]) -> Self:
        counts = Counter(self.same(value) for value in values)
        ranked = sorted(counts, key=lambda name: (-counts[name], name))
        if len(ranked) > self.most and not self.unknown:
            advice = "raise most, or set unknown: true"
            raise DataError(f"column {self.column!r} has {len(ranked):,} names in the training rows, and {self.most:,} are kept: {advice}")
        return replace(self, names=ranked[: self.most])

    def limited(self, values: Sequence[Any]) -> TensorSpec:  # noqa: ARG002 the names are the range
        spec, last = self.spec, len(self.names) - 1 + self.unknown
        low, high = (0 if spec.low is None else spec.low), (last if spec.high is None else spec.high)
        if isinstance(low, str) or isinstance(high, str) or low > 0 or high < last:
            declared = f"model.inputs gives {spec.name!r} the range {low} … {high}"
            raise DataError(f"{declared}, but preprocess makes ids from 0 to {last}: remove low and high, or set most")
        return replace(spec, low=float(low), high=float(last))

    def encode(self, value: Any) -> Array:
        if not isinstance(value, str):
            raise RequestError(f"input {self.column!r} must be the name of a category (got {type(value).__name__})", "give a string")
        name = self.same(value)
        if not name.strip() and "" not in self._ids:
            raise RequestError(f"input {self.column!r} is empty", "give the name of a category")
        if name not in self._ids and self.names and not self.unknown:
            known = ", ".join(repr(one) for one in self.names[:5]) + (", …" if len(self.names) > 5 else "")
            raise RequestError(f"input {self.column!r} is {name[:40]!r}, which no training row has", f"give one of {known}")
        return np.asarray(self._ids.get(name, 0), self.spec.dtype)

    def features(self) -> Iterator[tuple[str, Measure]]:
        yield f"{self.column}.rank", float
        if self.unknown:
            yield f"{self.column}.unknown", lambda row: float(row == 0)


KIND = Kind("categories", Categories, "a name becomes its id; names are those of the training rows")
