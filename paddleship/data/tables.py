"""Readers that need no code of the user: of tables, `data.reader: csv`, `jsonl` or `parquet`, and of a folder of `pictures`."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.config.sections.data import Data
from paddleship.data import pictures
from paddleship.data.pictures import read as read_picture
from paddleship.errors import DataError

Rows = Iterator[dict[str, Any]]
_WHOLE, _REAL = re.compile(r"[+-]?[0-9]+"), re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "csv": ("delimiter", "encoding", "missing", "vectors", "lists", "pictures"),
    "jsonl": ("encoding",),
    "parquet": (),
    "pictures": ("labels", "delimiter", "encoding", "missing", "vectors", "lists"),
}


def reader(name: str, text: Collection[str], needed: Collection[str]) -> Callable[..., Rows] | None:
    """The reader of this name; None if it is no name of one. The cells of columns in `text` stay text; those in `needed` must be there."""
    if name == "csv":
        csv.field_size_limit(sys.maxsize)
        return partial(_each_file, "csv", partial(_csv, text=frozenset(text), needed=tuple(needed)))
    if name == "pictures":
        return partial(_pictures, text=frozenset(text))
    return {"jsonl": partial(_each_file, "jsonl", _jsonl), "parquet": partial(_each_file, "parquet", _parquet)}.get(name)


def vectors(data: Data) -> Mapping[str, Sequence[str]]:
    """The columns of the table that each list is made of, by the name that `vectors` in data.kwargs gives it."""
    made = data.kwargs.get("vectors") if "vectors" in _OPTIONS.get(data.reader, ()) else None
    return made if isinstance(made, Mapping) else {}


def empty_cell(data: Data, name: str, value: Any) -> str | None:
    """The column of the table in which a row has nothing of this list; None if it has all of it, or `name` is no list of columns."""
    cells = zip(vectors(data).get(name, ()), value, strict=False) if isinstance(value, list) else ()
    return next((column for column, cell in cells if cell is None), None)


def is_number(text: str) -> bool:
    """Whether a cell is written as a number."""
    return isinstance(_number(text), int | float)


def _pictures(raw: Path, *, text: frozenset[str], labels: str | None = None, **options: Any) -> Rows:
    """A row for each picture in a folder: the bytes, the path below the folder, and the label.

    The label is the name of the subfolder; a folder without subfolders has none. With `labels`, the rows are those of this CSV file in
    the folder, whose column `file` has the paths.
    """
    _check_options("pictures", {"labels": labels, **options})
    if labels is None:
        yield from pictures.of_folder(raw)
        return
    table = pictures.inside(raw, labels, by="data.kwargs.labels")
    for row in _csv(table, text=text | {pictures.FILE}, needed=(pictures.FILE,), **options):
        yield {**row, pictures.PICTURE: pictures.read(raw, row[pictures.FILE], by=f"data.kwargs.labels {labels!r}")}


def _check_options(form: str, options: Collection[str]) -> None:
    if strange := sorted({*options} - set(_OPTIONS[form])):
        known = ", ".join(_OPTIONS[form]) or "none"
        raise DataError(f"data.kwargs has {strange[0]!r}, which the reader {form} does not know (known: {known}): correct or remove it")


def _each_file(form: str, read: Callable[..., Rows], raw: Path, **options: Any) -> Rows:
    _check_options(form, options)
    for path in [raw] if raw.is_file() else sorted(path for path in raw.iterdir() if path.suffix.lower() == f".{form}"):
        yield from read(path, **options)


def _csv(
    path: Path,
    *,
    text: frozenset[str],
    needed: tuple[str, ...],
    delimiter: str = ",",
    encoding: str = "utf-8-sig",
    missing: Sequence[str] = (),
    vectors: Mapping[str, Sequence[str]] | None = None,
    lists: Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> Rows:
    """The rows of a file with a header. An empty cell is None, and a number is one unless its column is in `text`.

    `missing` are texts that stand for an empty cell, such as NA. `vectors` makes one column of several, as in {x: [x0, x1]}, with None for
    an empty cell. `lists` names columns whose cells are lists, with the separator; `pictures` columns whose cells are paths of pictures,
    below the folder of the file.
    """
    joined, split, blank = _mapping("vectors", vectors), _mapping("lists", lists), _texts("missing", missing)
    text = text.union(*(parts for name, parts in joined.items() if name in text))
    with path.open(newline="", encoding=encoding) as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(lines, [])
            _check_header(path, header, joined, split, needed)
            for cells in _emptied(lines, blank) if blank else lines:
                if cells:
                    where = f"line {lines.line_num} of {str(path)!r}"
                    row = _row(header, cells, where, text=text | {*pictures}, joined=joined, split=split)
                    yield row | {name: row[name] and read_picture(path.parent, row[name], by=where) for name in pictures}
        except csv.Error as error:
            raise DataError(f"line {lines.line_num} of {str(path)!r} is no CSV ({error}): correct the line") from None


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise DataError(f"data.kwargs.{key} must be a mapping of columns (got {value!r:.60}): write {key}: {{COLUMN: …}}")
    return value or {}


def _emptied(lines: Iterable[list[str]], blank: frozenset[str]) -> Iterator[list[str]]:
    return (["" if cell.strip() in blank else cell for cell in line] for line in lines)


def _texts(key: str, value: Any) -> frozenset[str]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise DataError(f'data.kwargs.{key} must be a list of texts (got {value!r:.60}): write {key}: [NA, "?"], and numbers in quotes')
    return frozenset(text.strip() for text in value)


def _check_header(
    path: Path, header: Sequence[str], joined: Mapping[str, Sequence[str]], split: Mapping[str, str], needed: Sequence[str]
) -> None:
    has = f"{str(path)!r} has {', '.join(header) or 'no header'}"
    if twice := {name for name in (*header, *joined) if (*header, *joined).count(name) > 1}:
        raise DataError(f"{str(path)!r} has two columns called {min(twice)!r}, those of vectors included: rename one")
    named = [("vectors", part) for parts in joined.values() for part in parts] + [("lists", name) for name in split]
    if strange := [(key, name) for key, name in named if name not in header]:
        key, name = strange[0]
        raise DataError(f"data.kwargs.{key} names the column {name!r}, and {has}: correct it")
    if absent := [name for name in needed if name not in header and name not in joined]:
        advice = "correct data.inputs, data.label or the header, or set delimiter in data.kwargs"
        raise DataError(f"there is no column {absent[0]!r}: {has}; {advice}")


def _row(
    header: Sequence[str],
    cells: Sequence[str],
    where: str,
    *,
    text: frozenset[str],
    joined: Mapping[str, Sequence[str]],
    split: Mapping[str, str],
) -> dict[str, Any]:
    if len(cells) != len(header):
        advice = "correct the line, or set delimiter in data.kwargs"
        raise DataError(f"{where} has {len(cells)} cells, and the header {len(header)}: {advice}")
    row: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        read = _text if name in text else _number
        row[name] = [read(part) for part in _parts(name, cell, split[name], where)] if name in split else read(cell)
    for name, parts in joined.items():
        row[name] = [row[part] for part in parts]
    return row


def _parts(name: str, cell: str, separator: str, where: str) -> list[str]:
    parts = [part.strip() for part in cell.split(separator)] if cell.strip() else []
    if "" in parts:
        raise DataError(f"{where} has an empty part in the column {name!r} ({cell[:60]!r}): remove the separator, or write what is missing")
    return parts


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
