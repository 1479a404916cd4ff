"""Rows for training and proof: cleaned, without repeats, split by their content."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.params import Params
from paddleship.config.sections.data import Data
from paddleship.data import input_encoders, missing_numbers, ranges, tables
from paddleship.data.encoded_rows import EncodedRows
from paddleship.data.rounding import RoundingCounter
from paddleship.data.row_counts import RowCounts
from paddleship.data.row_faults import RowFault, summary
from paddleship.data.row_validation import Empty, RowValidator, value_bytes
from paddleship.data.task_kinds import positions
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.preprocess import Example, Preprocess, build
from paddleship.shipped.computing.references import explain, resolve
from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.system.progress import Progress

SPLITS = ("train", "validation", "test")
_KEY, _LABEL = "__key__", "__label__"
_TASK = "task"  # in the schema, for a task kind from a user's package
_ROWS = "return or yield rows, each a mapping from column names to values"


@dataclass(frozen=True)
class Rows:
    """Columns of equal length as a client would send them (text unchanged), their labels, and the content hash of each row.

    `labels` is empty if rows have none (data.label is null).
    """

    columns: dict[str, list[Any]]
    labels: np.ndarray[Any, Any]
    keys: list[str] = field(repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def labelled(self) -> bool:
        return len(self.labels) > 0

    def hashes(self, identity: Callable[[Sequence[Any]], str]) -> set[str]:
        """Hashes of the current contents, independent of `keys`; `identity` is that of a RowValidator."""
        return {identity(values) for values in zip(*self.columns.values(), strict=True)}

    def take(self, indices: Sequence[int]) -> Rows:
        columns = {name: [values[index] for index in indices] for name, values in self.columns.items()}
        labels = self.labels[list(indices)] if self.labelled else self.labels
        return Rows(columns, labels, [self.keys[index] for index in indices])

    def joined(self, others: Rows) -> Rows:
        """These rows, and then the others, which have the same columns."""
        columns = {name: [*values, *others.columns[name]] for name, values in self.columns.items()}
        return Rows(columns, np.concatenate([self.labels, others.labels]), [*self.keys, *others.keys])


def read_raw(data: Data, text: Collection[str] = ()) -> list[dict[str, Any]]:
    """Read the raw data with the reader. A reader of tables leaves the columns in `text` as they are. Raises DataError."""
    raw = Path(data.raw)
    if not raw.exists():
        raise DataError(f"data.raw {data.raw!r} does not exist: put the data there, run `dvc pull`, or correct the path")
    reader: Callable[..., Iterable[Mapping[str, Any]]] = tables.reader(data.reader, text, data.columns) or resolve(
        data.reader, key="data.reader", error=DataError
    )
    rows: list[dict[str, Any]] = []
    progress = Progress("reading", 0, "rows")
    try:
        found = reader(raw, **data.kwargs)
        if not isinstance(found, Iterable):
            raise DataError(f"data.reader {data.reader!r} returned {_shown(found)}: {_ROWS}")
        for row in found:
            rows.append(_as_row(row, data, len(rows)))
            progress.advance()
    except DataError:
        raise
    except Exception as failure:
        place = f"{data.raw!r} after {len(rows):,} rows" if rows else f"{data.raw!r}"
        raise DataError(
            f"data.reader {data.reader!r} failed on {place} ({explain(failure)}): {_mark_advice(raw) or 'fix the reader or the data'}"
        ) from None
    if not rows:
        raise DataError(f"data.reader {data.reader!r} found no rows in {data.raw!r}: check the path")
    absent = [name for name in data.columns if name not in rows[0]]
    if absent:
        raise DataError(
            f"data.reader {data.reader!r} returns no column {absent[0]!r} (it returns {', '.join(rows[0])}): "
            + (_mark_advice(raw) or "correct data.inputs or data.label")
        )
    return rows


def _mark_advice(raw: Path) -> str:
    """What to do about a byte order mark at the start of the raw data; empty if there is none."""
    marked = [path for path in ([raw] if raw.is_file() else sorted(raw.iterdir())) if path.is_file() and _marked(path)]
    return f"{str(marked[0])!r} begins with a byte order mark, so let the reader open it with encoding='utf-8-sig'" if marked else ""


def _marked(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(3) == b"\xef\xbb\xbf"


def _as_row(row: Any, data: Data, number: int) -> dict[str, Any]:
    try:
        return dict(row)
    except (TypeError, ValueError):
        raise DataError(f"row {number} of data.reader {data.reader!r} is {_shown(row)}: {_ROWS}") from None


def _shown(value: Any) -> str:
    return f"{value!r:.60} of type {type(value).__name__}"


def clean(rows: Sequence[Mapping[str, Any]], data: Data, validator: RowValidator | None = None) -> tuple[dict[str, Rows], RowCounts]:
    """Clean rows, drop repeats and contradictions, split by content hash. Returns the splits, and how many rows were dropped.

    Text stays unchanged; other inputs get the model's dtype. Texts that are equal after normalisation are repeats, of which the first
    stays. A content with two labels is dropped if labels of this task contradict each other, as classes do. The split of a row depends
    only on its content, so it does not change when data is added; but a part that would be empty gets a row. Raises DataError with the
    numbers of the first rows that cannot be used.
    """
    validator = validator or RowValidator(data)
    counts = RowCounts(len(rows))
    groups: dict[str, dict[bytes, tuple[list[Any], Any]]] = defaultdict(dict)
    faults: list[RowFault] = []
    rounding, as_read = RoundingCounter(data.inputs, len(rows), tables.vectors(data)), set[str]()
    for number, row in enumerate(rows):
        try:
            valid = validator.values(number, row)
            valid = valid if isinstance(valid, Empty) else _empty_label(row, data) or valid
            if isinstance(valid, Empty):
                counts.empty[valid.column] += 1
                continue
            label = None if data.label is None else validator.label(number, row[data.label], valid.values)
            if data.label is not None:
                rounding.add_label(number, data.label, row[data.label], label)
        except RowFault as fault:
            faults.append(fault)
            continue
        key = validator.identity(valid.values)
        as_read.add(validator.identity(valid.read) if rounding.add(number, valid) else key)
        written = b"" if label is None else value_bytes(label)
        counts.repeated += written in groups[key]
        groups[key].setdefault(written, (valid.values, label))
    if faults:
        raise summary(faults)
    counts.rounding = rounding.result(len(as_read), len(groups))
    counts.rounding.require_most()
    kept: dict[str, list[tuple[str, list[Any], Any]]] = {split: [] for split in SPLITS}
    for key in sorted(groups):
        variants = list(groups[key].values())
        if task_kinds.get(data.task).labels.contradict and len(variants) > 1:
            counts.contradictory += len(variants)
            continue
        kept[_split(key, data)] += [(key, values, label) for values, label in variants]
    counts.kept = sum(len(part) for part in kept.values())
    _fill_empty(kept)
    for split, part in kept.items():
        if not part:
            left = f"{counts.kept} rows left of {len(rows)}"
            raise DataError(f"the {split} split is empty ({left}): {_advice(split)}")
    return {split: _rows(part, data) for split, part in kept.items()}, counts


def _empty_label(row: Mapping[str, Any], data: Data) -> Empty | None:
    """The column in which a row has no label: None, or an empty text that is neither the name of a class nor a label of this task."""
    if data.label is None:
        return None
    label = row.get(data.label)
    if (part := tables.empty_cell(data, data.label, label)) is not None:
        return Empty(part)
    if not isinstance(label, str) or label.strip() or (label == "" and task_kinds.get(data.task).labels.empty):
        return Empty(data.label) if label is None else None
    return Empty(data.label) if label not in data.class_names else None


def describe(splits: Mapping[str, Rows], params: Params) -> dict[str, Any]:
    """The schema of the rows: preprocess config (fitted on the training part), valid ranges and sizes, content hash."""
    declared, training = input_encoders.declared(params), splits["train"].columns
    missing_numbers.require_known(declared, training, params.data)
    fitted = input_encoders.fit(declared, training)
    digest = hashlib.sha256()
    for rows in splits.values():
        for key, label in zip(rows.keys, rows.labels if rows.labelled else [None] * len(rows), strict=True):
            digest.update(key.encode() + (b"" if label is None else f"{label.dtype}{label.shape}".encode() + label.tobytes()))
    columns = [rows.columns for rows in splits.values()]
    code = task_kinds.code(params.data.task)
    return {
        "preprocess": input_encoders.config(params, fitted),
        "inputs": [spec.to_dict() for spec in ranges.inputs(fitted, columns)],
        "dimensions": [asdict(rule) for rule in ranges.dimensions(params.model, fitted, columns)],
        "data_sha256": digest.hexdigest(),
        **({_TASK: {"name": params.data.task, "code": code}} if code else {}),
    }


def write(splits: Mapping[str, Rows], schema: Mapping[str, Any], folder: Path) -> None:
    """Write one Parquet file for each split, and `schema.json` with the hashes of these files."""
    import pyarrow as pa
    from pyarrow import parquet

    for split, rows in splits.items():
        columns = {name: _column(name, values) for name, values in rows.columns.items()}
        labels = {_LABEL: pa.array(positions.without_padding(rows.labels))} if rows.labelled else {}
        parquet.write_table(pa.table({**columns, **labels, _KEY: rows.keys}), folder / f"{split}.parquet")
    schema = {**schema, "files": {path.name: sha256(path) for path in sorted(folder.glob("*.parquet"))}}
    (folder / "schema.json").write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(folder: Path, split: str) -> Rows:
    """Read one split that `write` wrote. Raises DataError if it is missing or was changed since."""
    from pyarrow import parquet

    path = folder / f"{split}.parquet"
    if not path.exists():
        raise DataError(f"{path} does not exist: run `dvc repro prepare`")
    if (found := sha256(path)) != (expected := str(_schema(folder).get("files", {}).get(path.name))):
        raise DataError(
            f"{path} changed since it was prepared (sha256 {found[:12]}, expected {expected[:12]}): run `paddleship run --again prepare`"
        )
    table = parquet.read_table(path)
    names = [name for name in table.column_names if name not in (_LABEL, _KEY)]
    columns = {name: _values(table[name]) for name in names}
    labels = positions.read(table[_LABEL].to_pylist()) if _LABEL in table.column_names else np.zeros(0)
    return Rows(columns, labels.astype(np.float32) if labels.dtype.kind == "f" else labels, table[_KEY].to_pylist())


def read_preprocess(folder: Path) -> tuple[Preprocess, dict[str, Any], tuple[TensorSpec, ...]]:
    """The preprocess of the prepared data, its config, and the model's inputs with their ranges. Raises DataError."""
    schema = _schema(folder)
    input_encoders.require_same_code(schema["preprocess"])
    _require_same_task(schema.get(_TASK, {}))
    specs = tuple(TensorSpec.from_dict(item) for item in schema["inputs"])
    preprocess = build(schema["preprocess"], specs, read_dimensions(folder))
    input_encoders.require_same_files(preprocess)
    return preprocess, schema["preprocess"], specs


def _require_same_task(stored: Mapping[str, Any]) -> None:
    """Raise DataError if the code of a task kind from a user's package changed since the data was prepared."""
    if stored and task_kinds.code(stored["name"]) != stored["code"]:
        raise DataError(
            f"the code of the task kind {stored['name']!r} changed since the data was prepared: run `paddleship run --again prepare`"
        )


def read_dimensions(folder: Path) -> tuple[Dimension, ...]:
    """The sizes that a row of the prepared data, or of a client, may have."""
    return tuple(Dimension(**item) for item in _schema(folder)["dimensions"])


def _schema(folder: Path) -> dict[str, Any]:
    path = folder / "schema.json"
    if not path.exists():
        raise DataError(f"{path} does not exist: run `dvc repro prepare`")
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def encode(preprocess: Preprocess, rows: Rows) -> Sequence[Example]:
    """Encode rows of the prepared data; those of files when they are asked for. Raises DataError in place of RequestError."""
    if preprocess.largest_bytes is None:
        return _encode(preprocess, rows.columns)
    return EncodedRows(partial(_encode_row, preprocess, rows.columns), len(rows))


def _encode_row(preprocess: Preprocess, columns: Mapping[str, Sequence[Any]], row: int) -> Example:
    return _encode(preprocess, {name: [values[row]] for name, values in columns.items()})[0]


def _encode(preprocess: Preprocess, columns: Mapping[str, Sequence[Any]]) -> list[Example]:
    try:
        return preprocess.encode(columns)
    except RequestError as error:
        raise DataError(f"the data does not fit model.inputs: {error}") from None


def positions_of(preprocess: Preprocess, rows: Rows, data: Data) -> list[list[tuple[int, int]]]:
    """The positions of each row: the part of its value, from start to end, that each was made from; empty if the task decides rows."""
    return preprocess.positions(rows.columns) if task_kinds.get(data.task).per_position else []


def _rows(part: Sequence[tuple[str, list[Any], Any]], data: Data) -> Rows:
    keys, values, labels = zip(*part, strict=True)
    columns = {name: list(column) for name, column in zip(data.inputs, zip(*values, strict=True), strict=True)}
    return Rows(columns, np.zeros(0) if data.label is None else task_kinds.get(data.task).stacked(labels), list(keys))


def _fill_empty(kept: Mapping[str, list[tuple[str, list[Any], Any]]]) -> None:
    """Give a part without rows those whose content hash comes first: training rows, or if these are too few, of the largest part."""
    for split in ("train", "test", "validation"):
        contents = {name: {key for key, *_ in rows} for name, rows in kept.items()}
        giver = "train" if len(contents["train"]) > 1 else max(kept, key=lambda name: len(contents[name]))
        if not kept[split] and len(contents[giver]) > 1:
            first = min(contents[giver])
            kept[split].extend(row for row in kept[giver] if row[0] == first)
            kept[giver][:] = [row for row in kept[giver] if row[0] != first]


def _advice(split: str) -> str:
    return "provide more data, or " + ("reduce data.validation and data.test" if split == "train" else f"raise data.{split}")


def _split(key: str, data: Data) -> str:
    place = int(key[:8], 16) / 2**32
    if place < data.test:
        return "test"
    return "validation" if place < data.test + data.validation else "train"


def _column(name: str, values: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array([value.tolist() if isinstance(value, np.ndarray) else value for value in values])
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(f"column {name!r} cannot be stored in Parquet ({error}): let data.reader return one type in all rows") from None


def _values(column: Any) -> list[Any]:
    """A Parquet column as Python values; nested lists of the same shape become arrays at once."""
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        return list(column.to_pylist())
    chunk, shape = column.combine_chunks(), []
    flat = chunk
    while pa.types.is_list(flat.type):
        sizes = set(flat.value_lengths().to_pylist())
        shape.append(sizes.pop() if len(sizes) == 1 else -1)
        flat = flat.flatten()
    if -1 in shape or pa.types.is_string(flat.type):
        return list(chunk.to_pylist())
    return list(flat.to_numpy(zero_copy_only=False).reshape(len(chunk), *shape))
