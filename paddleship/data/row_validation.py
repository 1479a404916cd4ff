"""Validate the rows of a reader; an error names the number of the row.

Text stays unchanged, because clients send it like that; the preprocess normalises it in training and for requests. Rows are
counted from 0, in the reader's order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from paddleship.config.params import Params
from paddleship.config.sections.data import Data
from paddleship.data import input_encoders, tables
from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess import Preprocess, whole_numbers
from paddleship.shipped.computing.preprocess.registration import InputEncoder
from paddleship.shipped.computing.preprocess.text import UnicodeForm, normalise
from paddleship.shipped.computing.spec import TensorSpec

_NUMBERS = (bool, int, float, np.number, np.bool_, Decimal, Fraction)
_KINDS = "biufU"  # numpy's bools, integers, real numbers and text
_KIND_NAMES = {"U": "text", "S": "bytes", "b": "truth values"}
_DROP, _DROP_CELL = "return None there to drop the row", "empty the cell"
_GIVE = "let data.reader return numbers, bools or text"


FILE = "file"  # a column that names a row in messages, if a reader returns it


@dataclass(frozen=True)
class Empty:
    """The column of a row that holds None or an empty text; of a list that is made of columns of a table, the one with an empty cell."""

    column: str


@dataclass(frozen=True)
class ValidRow:
    """The input columns of a row, in the order of data.inputs: in the model's dtypes, and the same numbers as they were read."""

    values: list[Any]
    read: list[Any]


class RowValidator:
    """Checks every row against data.inputs, data.label and the kinds of the model's inputs.

    `preprocess` has the encoders of the inputs, before they are fitted. Text in other columns is the same content if it is equal in
    `unicode_form` with single spaces.
    """

    def __init__(self, data: Data, preprocess: Preprocess | None = None, *, unicode_form: UnicodeForm | None = "NFKC") -> None:
        self._data, self._unicode_form = data, unicode_form
        self._preprocess = preprocess or Preprocess([])
        self._reading = {name: self._preprocess.reading(name) for name in data.inputs}
        self._forms: dict[str, tuple[int, str]] = {}
        self._vectors = tables.vectors(data)
        kind = task_kinds.get(data.task)
        self._labels = kind.labels.reader(data.label or "", data.class_names)
        self._sequence = self._preprocess.sequence if kind.per_position else None

    @classmethod
    def of(cls, params: Params) -> RowValidator:
        """Raises DataError for an input or a column that does not exist."""
        return cls(params.data, input_encoders.declared(params), unicode_form=params.preprocess.unicode_form)

    @property
    def text_columns(self) -> set[str]:
        """The columns of a table that stay text: those that an input of text or no input is made from, and labels if a class is called as
        a number is written.
        """
        text = {name for name, readers in self._reading.items() if not readers or any(one.request.dtype == "str" for one in readers)}
        label = self._data.label
        return text | ({label} if label is not None and any(map(tables.is_number, self._data.class_names)) else set())

    def values(self, number: int, row: Mapping[str, Any]) -> ValidRow | Empty:
        """The input columns of row `number`, in the order of data.inputs; or the first one that is empty. Raises RowFault."""
        try:
            clean = {name: self._clean(number, name, row.get(name)) for name in self._data.inputs}
            for name, value in clean.items():
                if value is None or (isinstance(value, str) and self._lacks_text(name, value)):
                    return Empty(tables.empty_cell(self._data, name, row.get(name)) or name)
            accepted = self._preprocess.accept(clean)
        except RequestError as error:
            file = f" ({row[FILE]})" if isinstance(row.get(FILE), str) else ""
            column, error = self._refused_cell(row) or ("", error)
            cell, drop = (f": column {column!r}", _DROP_CELL) if column else ("", _DROP)
            reason = f"row {number} of data.reader{file}{cell} does not fit model.inputs: {error.reason}"
            raise RowFault(reason, f"{error.advice}, or {drop}") from None
        read = [_as_number(value) if isinstance(accepted.get(name), np.ndarray) else value for name, value in clean.items()]
        clean |= accepted
        for name, value in clean.items():
            self._one_form(number, name, value)
        return ValidRow(list(clean.values()), read)

    def identity(self, values: Sequence[Any]) -> str:
        """The content hash of a row: the same for rows that no input tells apart, and whose other columns are equal."""
        return content_hash([same for name, value in zip(self._data.inputs, values, strict=True) for same in self._same(name, value)])

    def label(self, number: int, value: Any, values: Sequence[Any]) -> Any:
        """The label of a row with these valid `values`, as the task stores it. Raises RowFault."""
        label = self._labels.read(number, value)
        if self._sequence is None:
            return label
        return self._by_position(number, label, self._sequence, values[self._data.inputs.index(self._sequence.column)])

    def _by_position(self, number: int, label: Any, sequence: InputEncoder, value: Any) -> Any:
        """The entries of a label for the positions of the encoded row: without those of what normalisation or truncation leaves out."""
        parts = sequence.positions(value)
        text = isinstance(value, str)
        count = len(value) if text else len(parts)
        if not parts or len(label) != count:
            has = f"{count} characters" if text else f"{count} steps, without padding at its end"
            reason = f"row {number} of data.reader: column {self._data.label!r} has {len(label)} entries, and {sequence.column!r} {has}"
            pad = "" if text else ", or set pad in model.inputs to a value that no step has"
            raise RowFault(reason, f"return one entry for each of them{pad}")
        return label[[start for start, _ in parts]]

    def _refused_cell(self, row: Mapping[str, Any]) -> tuple[str, RequestError] | None:
        """The column of a table whose cell an encoder refuses in a list of several columns, and why; None if it is no such cell."""
        for name, columns in self._vectors.items():
            alone = Preprocess([one for one in self._reading.get(name, ()) if one.request.dtype != "str"])
            cells = [(column, cell) for column, cell in zip(columns, row[name], strict=True) if cell is not None]
            for column, cell in cells if alone.encoders else ():
                try:
                    alone.accept({name: np.asarray([cell] * len(columns))})
                except RequestError as error:
                    return column, error
        return None

    def _clean(self, number: int, name: str, value: Any) -> Any:
        """Text and bytes unchanged, numbers as an array with NaN for a missing one, None as None."""
        readers = self._reading[name]
        for one in readers:
            value = one.as_text(value)
        held = partial(where, number, name, value)
        if name in self._preprocess.missing:
            value = _with_nan(value, readers[0].request)
        elif tables.empty_cell(self._data, name, value) is not None:
            return None
        if isinstance(value, str):
            return _encodable(value, held)
        if value is None:
            return None
        if isinstance(value, bytes) and (not readers or any(one.request.dtype == "bytes" for one in readers)):
            return value
        if text := [one for one in readers if one.request.dtype == "str"]:
            reason = f"{held()} of type {type(value).__name__}, and the input {text[0].spec.name!r} is made from text"
            raise RowFault(reason, "name another column in preprocess, or let data.reader return str")
        try:
            array = np.asarray(value)
        except ValueError:
            raise RowFault(f"{held()}, a nested list whose parts differ in length", "return lists of one length at every depth") from None
        for one in readers:
            array = whole_numbers.in_full(name, value, array, one.request.numpy_dtype)
        if array.dtype.kind == "O":
            array = _numbers(array, held)
        if array.dtype.kind not in _KINDS:
            raise RowFault(f"{held()} of type {array.dtype.name}", _GIVE)
        if not array.size:
            reason = f"{held()}, which is empty (shape {list(array.shape)})"
            raise RowFault(reason, "return a list with the input's pad in it, or None to drop the row")
        return array

    def _lacks_text(self, name: str, value: str) -> bool:
        """Whether a text is empty, and an input that is made from it takes no empty text."""
        readers = self._reading[name]
        return not self._same(name, value)[0].strip() and not (readers and all(one.takes_empty for one in readers))

    def _same(self, name: str, value: Any) -> list[Any]:
        """What is equal for values that are the same content, for each input that is made from the column."""
        if readers := self._reading[name]:
            return [one.same(value) for one in readers]
        return [normalise(value, self._unicode_form) if isinstance(value, str) else value]

    def _one_form(self, number: int, name: str, value: Any) -> None:
        """Raise RowFault if a column holds text in one row and numbers in another, or lists of different depth."""
        array = np.asarray(b"" if isinstance(value, bytes) else value)
        form = f"{_KIND_NAMES.get(array.dtype.kind, 'numbers')} of {array.ndim} dimensions"
        first, usual = self._forms.setdefault(name, (number, form))
        if form != usual:
            raise RowFault(f"{where(number, name, value)}, {form}, and row {first} holds {usual}", "return one kind in all rows")


def _with_nan(value: Any, spec: TensorSpec) -> Any:
    """A value of numbers with NaN in place of each None, but for a list that is missing as a whole."""
    if value is None:
        return None if spec.shape[1:] else np.nan
    items = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    return [_with_nan(item, replace(spec, shape=spec.shape[1:])) for item in items] if isinstance(items, list | tuple) else value


def content_hash(values: Sequence[Any]) -> str:
    """The same hash for equal values, whatever their numeric type."""
    return hashlib.sha256(b"\0".join(value_bytes(value) for value in values)).hexdigest()


def value_bytes(value: Any) -> bytes:
    """The same bytes for equal values: numbers as float64 if that is exact, otherwise as integers; text as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
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
        if all(item == int(item) and abs(item) < 2**63 and whole_numbers.is_exact(item) for item in items):
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
