"""The class id of a label that is a class name or a class id.

Numbers are ids and text is a name. A column that mixes both is refused, and so are numbers where a class name is itself a number
other than its id: there, each reading gives another class.
"""

from __future__ import annotations

import math
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np

from paddleship.data.row_faults import RowFault, short, where
from paddleship.errors import DataError

_TRUTH = {"true": 1, "yes": 1, "false": 0, "no": 0}  # names that a bool may mean


class ClassLabels:
    """Maps the labels of a classification to class ids."""

    def __init__(self, column: str, classes: list[str]) -> None:
        self._column, self._classes = column, classes
        self._first: dict[bool, tuple[int, Any]] = {}  # the first name (True) and the first id (False), with the row of each

    def read(self, number: int, value: Any) -> int:
        """The class id of the label of row `number`. Raises RowFault for this label, and DataError for the whole column."""
        identity = self._named(number, value) if isinstance(value, str) else self._numbered(number, value)
        self._require_one_form(number, value)
        return identity

    def _named(self, number: int, value: str) -> int:
        if value in self._classes:
            return self._classes.index(value)
        raise self._unknown(number, value)

    def _numbered(self, number: int, value: Any) -> int:
        identity = _whole(value)
        if identity is None:
            raise self._unknown(number, value)
        self._require_ids(number, value)
        if identity < 0 or (self._classes and identity >= len(self._classes)):
            reason = f"holds the class id {identity}, and data.classes has {len(self._classes)} names"
            raise RowFault(f"row {number} of data.reader: column {self._column!r} {reason}", "correct the label or data.classes")
        return identity

    def _require_one_form(self, number: int, value: Any) -> None:
        named = isinstance(value, str)
        self._first.setdefault(named, (number, value))
        if len(self._first) < 2:
            return
        other, first = self._first[not named]
        kinds = ("a number", "text")
        raise DataError(
            f"{where(number, self._column, value)}, {kinds[named]}, and row {other} holds {short(first)}, {kinds[not named]}: let "
            "data.reader return class names in all rows, as text, or class ids in all rows, as numbers"
        )

    def _require_ids(self, number: int, value: Any) -> None:
        truth = np.asarray(value).dtype.kind == "b"
        meant = ((index, name, _number(name, truth=truth)) for index, name in enumerate(self._classes))
        odd = next(((index, name) for index, name, parsed in meant if parsed not in (None, index)), None)
        if odd is None:
            return
        kind = "a truth value" if truth else "a number"
        raise DataError(
            f"{where(number, self._column, value)}, {kind}, and data.classes gives the id {odd[0]} to the class {odd[1]!r}, so that it "
            f"can be a class id or a class name: if it is a name, let data.reader return text, such as {odd[1]!r}; if it is an id, rename "
            f"the classes, such as {'class ' + odd[1]!r}"
        )

    def _unknown(self, number: int, value: Any) -> RowFault:
        held = where(number, self._column, value)
        if not self._classes:
            advice = "name the classes in data.classes; if labels are numbers, set data.task to regression"
            return RowFault(f"{held}, which is no class id, and data.classes is empty", advice)
        if alike := [name for name in self._classes if isinstance(value, str) and _composed(name) == _composed(value)]:
            reason = f"{held}, which differs from {short(alike[0])} of data.classes only in its Unicode form"
            return RowFault(reason, "write both in one, such as NFC")
        reason = f"{held}, which is neither a class id nor one of data.classes {short(self._classes)}"
        return RowFault(reason, "correct the label or data.classes; if labels are numbers, set data.task to regression")


def _number(name: str, *, truth: bool) -> float | None:
    """The whole number that a class name is; with `truth`, also 1 or 0 for a name such as "true" or "no"."""
    if truth and name.strip().lower() in _TRUTH:
        return _TRUTH[name.strip().lower()]
    try:
        number = float(name.replace("_", "x"))  # Python reads 1_0 as 10
    except ValueError:
        return None
    return number if math.isfinite(number) and number == int(number) else None


def _whole(value: Any) -> int | None:
    """The integer that `value` is, also in an array of one element; None if it is none or does not fit into int64."""
    try:
        array = np.asarray(float(value) if isinstance(value, Decimal) else value)
    except ValueError:
        return None
    if array.dtype.kind not in "biuf" or array.size != 1 or not np.isfinite(array).all():
        return None
    number = array.item()
    return int(number) if number == int(number) and abs(number) < 2**63 else None


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
