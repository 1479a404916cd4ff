"""Validate the rows of a reader; an error names the number of the row.

Text stays unchanged, because clients send it like that; the preprocess normalises it in training and for requests. Rows are
counted from 0, in the reader's order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from paddleship.config.params import Data, Params
from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess import Tensors, UnicodeForm, normalise
from paddleship.shipped.computing.spec import Dimension, TensorSpec

_NUMBERS = (bool, int, float, np.number, np.bool_, Decimal, Fraction)
_KINDS = "biufU"  # numpy's bools, integers, real numbers and text
_WORDS = {"U": "text", "b": "truth values"}
_GIVE = "let data.reader return numbers, bools or text"


@dataclass(frozen=True)
class Empty:
    """The column of a row that holds None or an empty text."""

    column: str


@dataclass(frozen=True)
class ValidRow:
    """The input columns of a row, in the order of data.inputs: in the model's dtypes, and the same numbers as they were read."""

    values: list[Any]
    read: list[Any]


class RowValidator:
    """Checks every row against data.inputs, data.label and the model's inputs.

    `tensors` are the model's inputs if the columns are tensors, with declared `dimensions`; `text` is the column that must be text.
    Texts are the same content if they are equal in `unicode_form` with single spaces.
    """

    def __init__(
        self,
        data: Data,
        *,
        tensors: Sequence[TensorSpec] = (),
        dimensions: Sequence[Dimension] = (),
        text: str | None = None,
        unicode_form: UnicodeForm | None = "NFKC",
    ) -> None:
        self._data, self._text, self._unicode_form = data, text, unicode_form
        self._names = [spec.name for spec in tensors]
        if absent := [name for name in self._names if name not in data.inputs]:
            raise DataError(
                f"model.inputs names {absent[0]!r}, which is not a column of the data (data.inputs: {', '.join(data.inputs)}): use the "
                "same names in both"
            )
        self._tensors = Tensors(tensors, dimensions)
        self._forms: dict[str, tuple[int, str]] = {}
        self._labels = task_kinds.get(data.task).labels.reader(data.label, data.classes)

    @classmethod
    def of(cls, params: Params) -> RowValidator:
        form = params.preprocess.unicode_form
        if params.preprocess.kind == "characters":
            return cls(params.data, text=params.preprocess.column, unicode_form=form)
        return cls(params.data, tensors=[item.spec() for item in params.model.inputs], dimensions=params.model.rules, unicode_form=form)

    def values(self, number: int, row: Mapping[str, Any]) -> ValidRow | Empty:
        """The input columns of row `number`, in the order of data.inputs; or the first one that is empty. Raises RowFault."""
        clean = {name: self._clean(number, name, row.get(name)) for name in self._data.inputs}
        for name, value in clean.items():
            if value is None or (isinstance(value, str) and not normalise(value, self._unicode_form)):
                return Empty(name)
        try:
            taken = self._tensors.encode({name: [clean[name]] for name in self._names})
        except RequestError as error:
            reason = f"row {number} of data.reader does not fit model.inputs: {error.reason}"
            raise RowFault(reason, f"{error.advice}, or return None there to drop the row") from None
        read = [_as_number(value) if name in self._names else value for name, value in clean.items()]
        clean |= taken[0] if taken else {}
        for name, value in clean.items():
            self._one_form(number, name, value)
        return ValidRow(list(clean.values()), read)

    def identity(self, values: Sequence[Any]) -> str:
        """The content hash of a row."""
        return content_hash(values, unicode_form=self._unicode_form)

    def label(self, number: int, value: Any) -> Any:
        """The label as the task stores it. Raises RowFault."""
        return self._labels.read(number, value)

    def _clean(self, number: int, name: str, value: Any) -> Any:
        """Text unchanged, numbers as an array, None as None."""
        held = partial(where, number, name, value)
        if isinstance(value, str):
            return _encodable(value, held)
        if value is None:
            return None
        if name == self._text:
            reason = f"{held()} of type {type(value).__name__}, and preprocess.column must be text"
            raise RowFault(reason, "name another column, or let data.reader return str")
        try:
            array = np.asarray(value)
        except ValueError:
            raise RowFault(f"{held()}, a nested list whose parts differ in length", "return lists of one length at every depth") from None
        if array.dtype.kind == "O":
            array = _numbers(array, held)
        if array.dtype.kind not in _KINDS:
            raise RowFault(f"{held()} of type {array.dtype.name}", _GIVE)
        if not array.size:
            reason = f"{held()}, which is empty (shape {list(array.shape)})"
            raise RowFault(reason, "return a list with the input's pad in it, or None to drop the row")
        return array

    def _one_form(self, number: int, name: str, value: Any) -> None:
        """Raise RowFault if a column holds text in one row and numbers in another, or lists of different depth."""
        array = np.asarray(value)
        form = f"{_WORDS.get(array.dtype.kind, 'numbers')} of {array.ndim} dimensions"
        first, usual = self._forms.setdefault(name, (number, form))
        if form != usual:
            raise RowFault(f"{where(number, name, value)}, {form}, and row {first} holds {usual}", "return one kind in all rows")


def content_hash(values: Sequence[Any], *, unicode_form: UnicodeForm | None) -> str:
    """The same hash for equal contents, whatever their numeric type or Unicode form."""
    same = [normalise(value, unicode_form) if isinstance(value, str) else value for value in values]
    return hashlib.sha256(b"\0".join(value_bytes(value) for value in same)).hexdigest()


def value_bytes(value: Any) -> bytes:
    """The same bytes for equal values: numbers as float64 if that is exact, otherwise as integers; text as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return json.dumps(array.tolist()).encode()
    wide = array.astype(np.float64) + 0.0  # -0.0 equals 0.0
    if array.dtype.kind in "iu" and (np.abs(wide) >= 2**53).any():  # above that, float64 skips integers
        exact = [int(number) for number in wide.ravel()] == array.ravel().tolist()
        wide = wide if exact else array
    return f"{wide.dtype}{wide.shape}".encode() + wide.tobytes()


def _encodable(text: str, held: Callable[[], str]) -> str:
    """The text, if UTF-8 can encode it. Raises RowFault."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RowFault(f"{held()}, which UTF-8 cannot encode", "let data.reader decode the text with its own encoding") from None
    return text


def _numbers(array: np.ndarray[Any, Any], held: Callable[[], str]) -> np.ndarray[Any, Any]:
    """Convert numbers that numpy stores as objects, such as Decimal, to int64 if all are whole, else to float64. Raises RowFault."""
    items = array.ravel().tolist()
    if (odd := next((item for item in items if not isinstance(item, _NUMBERS)), _NUMBERS)) is not _NUMBERS:
        raise RowFault(f"{held()} with a value of type {type(odd).__name__}", _GIVE)
    with suppress(ArithmeticError, ValueError):  # Decimal("NaN") and 10**400
        if all(item == int(item) and abs(item) < 2**63 for item in items):
            return np.array([int(item) for item in items], np.int64).reshape(array.shape)
    try:
        return array.astype(np.float64)
    except (ArithmeticError, ValueError) as error:
        raise RowFault(f"{held()}, which float64 cannot hold ({error})", _GIVE) from None


def _as_number(value: Any) -> Any:
    """A value of a model input that was read as text as the number that it is; whole numbers as int64 if they fit."""
    array = np.asarray(value)
    if array.dtype.kind != "U":
        return value
    with suppress(ValueError, OverflowError):
        return array.astype(np.int64)
    return array.astype(np.float64)
