"""Rows of a file, in the form that a candidate's clients send them: without the params that it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.sections.data import Data
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.data.row_faults import RowFault, summary
from paddleship.data.row_validation import Empty, RowValidator
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import BadInput, DataError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json
from paddleship.shipped.computing.preprocess import Preprocess, registry
from paddleship.shipped.computing.task_kinds.registration import Positions

_FORMS = ("csv", "jsonl", "parquet")
_SCHEMA = "schema.json"
_LABEL = "label"


@dataclass(frozen=True)
class FileRows:
    """The first rows of a file, which has `total`. `held_out_of` is the hash of the data that they were held out of, if that is known."""

    path: Path
    rows: Rows
    total: int
    held_out_of: str | None = None


def read(path: Path, candidate: Candidate, *, label: str | None, most: int) -> FileRows:
    """At most the first `most` rows of a file that `prepare` wrote, or of any table with the candidate's columns.

    `label` is the column of the labels; by default `label` if there is one. Raises BadInput.
    """
    if _is_prepared(path):
        rows = dataset.read(path.parent, path.stem)
        if absent := [name for name in columns(candidate) if name not in rows.columns]:
            has = ", ".join(rows.columns)
            raise BadInput(f"--rows {str(path)!r} has no column {absent[0]!r} (it has {has}): give rows with the inputs of the images")
        return _first(path, rows, most, data_sha256(path) if path.stem == "test" else None)
    return _first(path, _table(path, candidate, label), most)


def columns(candidate: Candidate) -> list[str]:
    """The columns of a request."""
    return _encoders(candidate)[0]


def data_sha256(path: Path) -> str:
    """The hash of the data that a file of `prepare` is a part of."""
    return str(read_json(path.parent / _SCHEMA, stage="prepare")["data_sha256"])


def _first(path: Path, rows: Rows, most: int, held_out_of: str | None = None) -> FileRows:
    return FileRows(path, rows.take(range(min(len(rows), most))), len(rows), held_out_of)


def _is_prepared(path: Path) -> bool:
    return path.suffix == ".parquet" and path.stem in dataset.SPLITS and (path.parent / _SCHEMA).exists()


def positions_of(candidate: Candidate, rows: Rows) -> list[Positions]:
    """The positions of each row that have a decision; empty if the candidate decides rows. Raises BadInput."""
    if not task_kinds.get(str(candidate.task)).per_position:
        return []
    _, encoders = _encoders(candidate)
    if not encoders.encoders:
        raise BadInput(
            f"{candidate.model!r} has a decision for each position, which only its own preprocess code can find, and that runs in its "
            "container only: such images cannot be compared"
        )
    return list(encoders.positions(rows.columns))


def _table(path: Path, candidate: Candidate, label: str | None) -> Rows:
    """All rows of a table, validated as `prepare` does. Raises BadInput."""
    form = path.suffix.lower().lstrip(".")
    if form not in _FORMS or not path.is_file():
        raise BadInput(f"--rows {str(path)!r} is no file that ends in .{', .'.join(_FORMS)}: give one, or the test.parquet of `prepare`")
    names, encoders = _encoders(candidate)
    classes, column = list(candidate.classes), label or _LABEL
    data = Data(raw=str(path), reader=form, inputs=names, label=column, task=str(candidate.task), classes=classes)
    try:
        validator = RowValidator(data, encoders)
        raw = dataset.read_raw(data.model_copy(update={"label": label}), validator.text_columns)
        return _validated(raw, data if column in raw[0] else data.model_copy(update={"label": None}), validator)
    except DataError as error:
        raise BadInput(f"--rows {str(path)!r}: {_of_file(str(error))}") from None


def _encoders(candidate: Candidate) -> tuple[list[str], Preprocess]:
    """The columns of a request, and what reads them: nothing if that would run a candidate's code, which only its container may do."""
    entries = preprocess.inputs_of(candidate.preprocess)
    made = [preprocess.encoder(spec, entries.get(spec.name)) for spec in candidate.inputs]
    runs_code = any(registry.get(entry["kind"]).naming("code") for entry in entries.values())
    return list(dict.fromkeys(one.column for one in made)), Preprocess([] if runs_code else made, candidate.dimensions)


def _validated(raw: Sequence[Mapping[str, Any]], data: Data, validator: RowValidator) -> Rows:
    """The rows as a client would send them. Raises DataError for rows that cannot be used."""
    values, labels, faults = [], [], list[RowFault]()
    for number, row in enumerate(raw):
        try:
            valid = validator.values(number, row)
            if isinstance(valid, Empty):
                raise RowFault(f"row {number} of data.reader: column {valid.column!r} is empty", "fill it, or remove the row")
            values.append(valid.values)
            if data.label is not None:
                labels.append(validator.label(number, row.get(data.label), valid.values))
        except RowFault as fault:
            faults.append(fault)
    if faults:
        raise summary(faults)
    columns = {name: list(column) for name, column in zip(data.inputs, zip(*values, strict=True), strict=True)}
    stacked = task_kinds.get(data.task).stacked(labels) if data.label is not None else np.zeros(0)
    return Rows(columns, stacked, [str(number) for number in range(len(values))])


def _of_file(message: str) -> str:
    """The message of a validator, without the params that a file does not have."""
    return message.replace("of data.reader", "of the file").replace("model.inputs", "the inputs of the model")
