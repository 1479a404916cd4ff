"""The registration of a preprocess kind, in the file of the kind: here or in a user's package (docs/how-to/add-preprocess-kind.md)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import Enum, auto
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from paddleship.errors import RegistrationError
from paddleship.shipped.computing.preprocess import measures
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.spec import Dimension, TensorSpec

_COMMON = ("column", "spec")  # fields that every kind has
ValueMeasure = Callable[[Any], float]
Names = Literal["code", "file", "input"]


class Content(Enum):
    """What a value is to a model that is fitted on columns: a text, one of few names, or equally many numbers in every row."""

    TEXT = auto()
    CATEGORY = auto()
    NUMBERS = auto()


def param(
    description: str, default: Any = MISSING, *, at_least: float | None = None, only_params: bool = False, names: Names | None = None
) -> Any:
    """A field that a user sets in params.yaml. `only_params`: it is not stored with a candidate, because only `fit` reads it.

    `names`: what the value names, if it names something: a class in the user's `code`, whose texts the field `code` then gets; a `file`
    that `fit` reads; or another `input` of the model, which an encoder of the same params makes from the same value, and whose field
    `gives` is then the name of this field.
    """
    return field(default=default, metadata={"description": description, "at_least": at_least, "stored": not only_params, "names": names})


def fitted(default: Any) -> Any:
    """A field that `fit` finds in the training rows, and that is stored with a candidate."""
    return field(default=default, metadata={"stored": True})


@dataclass(frozen=True, kw_only=True)
class InputEncoder(ABC):
    """How one input of the model is made from one column. The fields of a kind are its params and what it learns from training rows.

    `column` is the column of the data and of a request, `spec` the input of the model. A kind defines `encode`, and what differs from the
    defaults below. Fields must be values that JSON can hold.

    `is_input`: what `accept` returns already is the row of the input. `sized_by` names the params that set the sizes of the input's
    dynamic dimensions, which `model.dimensions` then must not. `pictorial`: `changed` changes the picture. `quick`: `encode` takes no more
    than microseconds for each kilobyte of a value, so that a server may call it between two reads of its connections.
    """

    column: str
    spec: TensorSpec

    is_input: ClassVar[bool] = False
    pictorial: ClassVar[bool] = False
    quick: ClassVar[bool] = False
    sized_by: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def request(self) -> TensorSpec:
        """The tensor that a client sends; a column of text or of files has the dtype "str" or "bytes" and the shape (batch,)."""
        return replace(self.spec, name=self.column)

    @property
    def content(self) -> Content | None:
        """What `same` returns if that is a text, and otherwise what `encode` returns; None if it is none of these, such as a picture."""
        return None

    @property
    def longest_text(self) -> int:
        """How many characters are read of a text."""
        return 0

    @property
    def largest_bytes(self) -> int:
        """How many bytes a value of a column of bytes may have."""
        return 0

    @property
    def takes_empty(self) -> bool:
        """Whether an empty text is a value; otherwise such a row is dropped."""
        return False

    @property
    def takes_missing(self) -> bool:
        """Whether numbers of a value may be missing, which are NaN in a raw row and null in JSON; otherwise such a row is dropped."""
        return False

    def as_text(self, value: Any) -> Any:
        """A raw value of a column of text that is not text yet, as the text that a client sends; others unchanged."""
        return value

    def accept(self, value: Any) -> Any:
        """The value of a raw row as it is stored and as a client sends it. Raises RequestError for a value that is never valid."""
        return value

    def same(self, value: Any) -> Any:
        """Equal for values that are the same content: such rows are repeats, and are never in two parts. White space alone is no value."""
        return value

    def fit(self, values: Sequence[Any]) -> Self:  # noqa: ARG002 a kind that learns nothing
        """The encoder with what it learns from the column's values in the training part."""
        return self

    def changed_file(self) -> str | None:
        """The file that `fit` read, if it is another one by now; None if there is none."""
        return None

    def limited(self, values: Sequence[Any]) -> TensorSpec:  # noqa: ARG002 a kind that knows no range
        """The input with the range of valid values; `values` are those of the column in all parts. Raises DataError."""
        return self.spec

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:
        """The sizes that a dynamic dimension has, by axis of a row; `values` are those of the column in all parts."""
        return Dimension(str(self.spec.shape[axis + 1])).over([self.collate([self.encode(value)]).shape[axis + 1] for value in values])

    @abstractmethod
    def encode(self, value: Any) -> Array:
        """One row of the input, without the batch dimension. Raises RequestError for a value that the model does not accept."""

    def changed(self, value: Any, change: Callable[[Any], Any]) -> Array:  # noqa: ARG002 a kind that is no picture
        """As `encode`, of a picture that `change` has changed once it was decoded; of other values, `encode` itself."""
        return self.encode(value)

    def positions(self, value: Any) -> list[tuple[int, int]]:
        """The part of a value, from start to end, that each position along the first axis of its encoded row was made from.

        By default each position is a step of its own. Where rows are padded, steps at the end that hold nothing but `pad` are none.
        """
        length = self.spec.shape[1]
        if isinstance(length, str):
            row = self.encode(value)
            used = np.flatnonzero((row != self.spec.pad).reshape(len(row), -1).any(1))
            length = int(used[-1]) + 1 if used.size else 0
        return [(index, index + 1) for index in range(length)]

    def check(self, row: Array, sizes: Mapping[str, int], rules: Mapping[str, Dimension]) -> None:  # noqa: B027 most kinds check nothing
        """Raises RequestError if an encoded row has a size or a value that the proof did not cover; `sizes` are those of the whole row."""

    def collate(self, rows: Sequence[Array]) -> Array:
        """Stack rows; dynamic dimensions are padded at their end to the largest of the rows."""
        shape = tuple(max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True))
        batch = np.full((len(rows), *shape), self.spec.pad, rows[0].dtype)
        for index, row in enumerate(rows):
            batch[index, *(slice(size) for size in row.shape)] = row  # type: ignore[index]
        return batch

    def is_full(self, row: Array) -> bool:  # noqa: ARG002 a kind whose rows do not tell
        """Whether the value of an encoded row may have been truncated; if not, `cut` is not asked about it."""
        return True

    def cut(self, value: Any) -> tuple[int, int] | None:  # noqa: ARG002 a kind that truncates nothing
        """The length of a value that `encode` truncates, and how much of it is read; None for others."""
        return None

    def features(self) -> Iterator[tuple[str, Measure]]:
        """Numbers that describe an encoded row, by name, for comparing requests with the training rows; never text."""
        return measures.of_input(self.column, self.spec)

    def value_features(self) -> Iterator[tuple[str, ValueMeasure]]:
        """The same of a value that `encode` accepts, which an encoded row does not show; fast, because a server waits for them."""
        return iter(())

    def malformed(self, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002 a kind whose column has a form that all columns of it have
        """Values that a server must refuse, by description, made from a valid one: the acceptance test sends them."""
        return iter(())

    def learned(self) -> dict[str, Any]:
        """The fields that `fit` found."""
        return {
            one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("stored") and "description" not in one.metadata
        }

    @property
    def learns(self) -> bool:
        """Whether the rows that it was fitted on decide how a value is encoded."""
        return any(self.learned().values())

    def stored(self) -> dict[str, Any]:
        """The fields that are stored with a candidate."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("stored")}


@dataclass(frozen=True)
class Kind:
    """A preprocess kind: its name in params.yaml, and the class of its encoders.

    `requirements` are the pins (`name==version`) of packages that the image needs to encode. `short`: its params may also stand directly
    below `preprocess`, for a model with one such input. `default`: inputs for which the params name no kind are of this one.
    """

    name: str
    encoder: type[InputEncoder]
    description: str
    requirements: tuple[str, ...] = ()
    short: bool = False
    default: bool = False

    def __post_init__(self) -> None:
        if loose := [pin for pin in self.requirements if "==" not in pin]:
            raise RegistrationError(f"the preprocess kind {self.name!r} requires {loose[0]!r}: pin it, name==version")
        for one in fields(self.encoder):
            if one.name not in _COMMON and "stored" not in one.metadata:
                raise RegistrationError(
                    f"the field {one.name!r} of the preprocess kind {self.name!r} is neither a param nor fitted: declare it"
                )

    @property
    def params(self) -> list[Field[Any]]:
        """The fields that a user sets."""
        return [one for one in fields(self.encoder) if "description" in one.metadata]

    def naming(self, what: Names) -> list[str]:
        """The params that name such a thing."""
        return [one.name for one in self.params if one.metadata["names"] == what]
