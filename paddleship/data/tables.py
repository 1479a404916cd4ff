"""Readers of tables, so that a file needs no code of the user: `data.reader: csv`, `jsonl` or `parquet`."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.errors import DataError

Rows = Iterator[dict[str, Any]]
_WHOLE, _REAL = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def reader(name: str, text: Collection[str]) -> Callable[..., Rows] | None:
    """The reader of this name; None if it is no name of one. The cells of columns in `text` stay text."""
    if name == "csv":
        csv.field_size_limit(sys.maxsize)
        return partial(_each_file, partial(_csv, text=frozenset(text)), "*.csv")
    return {"jsonl": partial(_each_file, _jsonl, "*.jsonl"), "parquet": partial(_each_file, _parquet, "*.parquet")}.get(name)


def _each_file(read: Callable[..., Rows], pattern: str, raw: Path, **options: Any) -> Rows:
    for path in [raw] if raw.is_file() else sorted(raw.glob(pattern)):
        yield from read(path, **options)


def _csv(
    path: Path,
    *,
    text: frozenset[str],
    delimiter: str = ",",
    encoding: str = "utf-8-sig",
    vectors: Mapping[str, Sequence[str]] | None = None,
    lists: Mapping[str, str] | None = None,
) -> Rows:
    """The rows of a file with a header. An empty cell is None, and a number is one unless its column is in `text`.

    `vectors` makes one column of several, as in {x: [x0, x1]}; a row in which one of them is empty lacks it. `lists` names columns whose
    cells are lists, with the separator.
    """
    with path.open(newline="", encoding=encoding) as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        header = next(lines, [])
        if twice := {name for name in header if header.count(name) > 1}:
            raise DataError(f"{str(path)!r} has two columns called {min(twice)!r}: rename one")
        if strange := [name for names in (vectors or {}).values() for name in names if name not in header]:
            raise DataError(f"data.kwargs.vectors names the column {strange[0]!r}, and {str(path)!r} has {', '.join(header)}: correct it")
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                where = f"line {lines.line_num} of {str(path)!r}"
                advice = "correct the line, or set delimiter in data.kwargs"
                raise DataError(f"{where} has {len(cells)} cells, and the header {len(header)}: {advice}")
            row: dict[str, Any] = {}
            for name, cell in zip(header, cells, strict=True):
                read = _text if name in text else _number
                separator = (lists or {}).get(name)
                row[name] = read(cell) if separator is None else [read(part.strip()) for part in cell.split(separator) if part.strip()]
            for name, parts in (vectors or {}).items():
                row[name] = None if any(row[part] is None for part in parts) else [row[part] for part in parts]
            yield row


def _text(cell: str) -> str | None:
    return cell or None


def _number(cell: str) -> Any:
    """The number that the cell holds, None if it is empty, and otherwise its text, which an input of numbers refuses."""
    trimmed = cell.strip()
    if _WHOLE.fullmatch(trimmed):
        return int(trimmed)
    if _REAL.fullmatch(trimmed):
        return float(trimmed)
    return cell if trimmed else None


def _jsonl(path: Path, *, encoding: str = "utf-8-sig") -> Rows:
    with path.open(encoding=encoding) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"line {number} of {str(path)!r} is no JSON ({error}): correct the line") from None
            if not isinstance(row, dict):
                raise DataError(f'line {number} of {str(path)!r} is no object, such as {{"text": "…", "label": 1}}: correct the line')
            yield row


def _parquet(path: Path) -> Rows:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise DataError(f"{str(path)!r} is no Parquet file, or it is incomplete ({error}): copy it again") from None
