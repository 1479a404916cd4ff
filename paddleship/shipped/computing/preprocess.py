"""Convert raw values into the model's inputs; the same code in training, proof and server.

A preprocess is built from its config, a dict that is part of the candidate. This module goes into the image, so it needs
only numpy.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.spec import Dimension, TensorSpec, row_sizes

Example = dict[str, np.ndarray[Any, Any]]  # one row, without the batch dimension
Batch = dict[str, np.ndarray[Any, Any]]
UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]


class Preprocess(Protocol):
    """`requests` describes the tensors that a client sends; a text column has the dtype "str" and the shape (batch,).

    `longest_text` is the number of characters that are read of a text; None if no input is text.
    """

    requests: tuple[TensorSpec, ...]
    longest_text: int | None

    def encode(self, columns: Mapping[str, Sequence[Any]]) -> list[Example]:
        """Convert columns into one example per row. Raises RequestError for a value that the model does not accept."""

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Stack examples; dynamic dimensions are padded to the longest row."""

    def cuts(self, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        """The values that `encode` truncates: input, row, length after normalisation, and number of characters that are kept."""


class Tensors:
    """Columns that already are the model's inputs: check dtype, shape, sizes and range, then stack."""

    longest_text: int | None = None

    def __init__(self, specs: Sequence[TensorSpec], dimensions: Sequence[Dimension] = ()) -> None:
        self.requests = tuple(specs)
        self._dimensions = {rule.name: rule for rule in dimensions}
        self._shared = _shared(specs)

    def encode(self, columns: Mapping[str, Sequence[Any]]) -> list[Example]:
        encoded = {spec.name: [_checked(value, spec) for value in columns[spec.name]] for spec in self.requests}
        examples = [dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)]
        for example in examples:
            for dimension, places in self._shared.items():
                _agree(example, dimension, places)
            self._check(example, row_sizes(self.requests, example))
        return examples

    def collate(self, examples: Sequence[Example]) -> Batch:
        return {spec.name: _stack([example[spec.name] for example in examples], spec.pad) for spec in self.requests}

    def cuts(self, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:  # noqa: ARG002 the protocol's form
        return []

    def _check(self, example: Example, sizes: Mapping[str, int]) -> None:
        """Raises RequestError if a row has a size or a value that the proof did not cover."""
        for name, size in sizes.items():
            if (rule := self._dimensions.get(name)) and not rule.allows(size):
                spec = next(spec for spec in self.requests if name in spec.shape)
                reason = f"input {spec.name!r} has size {size} in the dimension {name!r}, the model takes {rule}"
                raise RequestError(reason, "give such a size")
        for spec in self.requests:
            _in_range(example[spec.name], spec, sizes)


class Characters:
    """Text to character ids: 0 pads, 1 stands for a character outside the vocabulary.

    Text is normalised (see `normalise`), truncated to `max_length` characters and padded to a multiple of `multiple_of`, so
    that there are few distinct shapes.
    """

    PAD, UNKNOWN = 0, 1

    def __init__(
        self,
        *,
        column: str,
        input: str,
        vocabulary: Sequence[str],
        unicode_form: UnicodeForm | None,
        max_length: int,
        multiple_of: int,
        dtype: str = "int64",
    ) -> None:
        self.requests: tuple[TensorSpec, ...] = (TensorSpec(column, "str", ("batch",)),)
        self._column, self._input, self._dtype = column, input, dtype
        self._unicode_form = unicode_form
        self.longest_text: int | None = max_length
        self._max_length, self._multiple_of = max_length, multiple_of
        self._ids = {character: index + 2 for index, character in enumerate(vocabulary)}

    def encode(self, columns: Mapping[str, Sequence[Any]]) -> list[Example]:
        return [{self._input: self._row(text)} for text in columns[self._column]]

    def collate(self, examples: Sequence[Example]) -> Batch:
        rows = [example[self._input] for example in examples]
        longest = max(len(row) for row in rows)
        length = -(-longest // self._multiple_of) * self._multiple_of
        batch = np.full((len(rows), length), self.PAD, self._dtype)
        for index, row in enumerate(rows):
            batch[index, : len(row)] = row
        return {self._input: batch}

    def cuts(self, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        lengths = enumerate(len(normalise(text, self._unicode_form)) for text in columns[self._column])
        return [
            {"input": self._column, "row": row, "length": length, "kept": self._max_length}
            for row, length in lengths
            if length > self._max_length
        ]

    def _row(self, text: Any) -> np.ndarray[Any, Any]:
        if not isinstance(text, str):
            raise RequestError(f"input {self._column!r} must be text (got {type(text).__name__})", "give a string")
        clean = normalise(text, self._unicode_form)[: self._max_length]
        if not clean:
            raise RequestError(f"input {self._column!r} is empty", "give at least one character")
        return np.fromiter((self._ids.get(character, self.UNKNOWN) for character in clean), self._dtype, len(clean))


def normalise(text: str, unicode_form: UnicodeForm | None) -> str:
    """The text in a Unicode normal form (None: unchanged), with single spaces and no white space at the ends."""
    return " ".join((unicodedata.normalize(unicode_form, text) if unicode_form else text).split())


def vocabulary(texts: Iterable[str], *, size: int, unicode_form: UnicodeForm | None) -> list[str]:
    """The most frequent characters of normalised text; `size` counts the ids for padding and unknown too; ties in code point order."""
    counts = Counter(character for text in texts for character in normalise(text, unicode_form))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [character for character, _ in ranked[: size - 2]]


def build(config: Mapping[str, Any], specs: Sequence[TensorSpec], dimensions: Sequence[Dimension] = ()) -> Preprocess:
    """Build the preprocess that `config` describes, for a model with the inputs `specs` and row sizes `dimensions`."""
    settings = {key: value for key, value in config.items() if key != "kind"}
    if config["kind"] == "characters":
        dtype = next(spec.dtype for spec in specs if spec.name == settings["input"])
        return Characters(**settings, dtype=dtype)
    return Tensors(specs, dimensions)


def _shared(specs: Sequence[TensorSpec]) -> dict[str, list[tuple[str, int]]]:
    """Dynamic dimensions of a row that occur several times, with input and axis of each, without the batch dimension."""
    places: dict[str, list[tuple[str, int]]] = {}
    for spec in specs:
        for axis, size in enumerate(spec.shape[1:]):
            if isinstance(size, str):
                places.setdefault(size, []).append((spec.name, axis))
    return {dimension: found for dimension, found in places.items() if len(found) > 1}


def _agree(example: Example, dimension: str, places: Sequence[tuple[str, int]]) -> None:
    """Raises RequestError if inputs of a row have different sizes in a dimension that they share."""
    sizes = [example[name].shape[axis] for name, axis in places]
    if odd := next((index for index, size in enumerate(sizes) if size != sizes[0]), 0):
        raise RequestError(
            f"inputs {places[0][0]!r} and {places[odd][0]!r} share the dimension {dimension!r}, and have sizes {sizes[0]} and "
            f"{sizes[odd]} in one row",
            "send the same size, or name the dimensions differently in model.inputs",
        )


def _checked(value: Any, spec: TensorSpec) -> np.ndarray[Any, Any]:
    """One row of a tensor input, after checking its dtype and shape."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "SU" and spec.numpy_dtype.kind == "b":
            raise TypeError("any text would count as true")
        with np.errstate(over="ignore", invalid="ignore"):  # values that do not fit are refused below
            cast = array.astype(spec.numpy_dtype)
    except (TypeError, ValueError, OverflowError):
        raise RequestError(f"input {spec.name!r} cannot be read as {spec.dtype} (got {_unreadable(value, spec)})", "give numbers") from None
    wanted = spec.shape[1:]
    fits = array.ndim == len(wanted) and all(isinstance(want, str) or want == got for want, got in zip(wanted, array.shape, strict=True))
    if not fits:
        raise RequestError(f"input {spec.name!r} has shape {list(array.shape)} per row, the model takes {list(wanted)}", "give that shape")
    if spec.numpy_dtype.kind in "iub" and array.dtype.kind in "iuf" and not np.array_equal(cast, array):
        odd = array[cast != array].flat[0]
        reason = f"input {spec.name!r} must be whole numbers that {spec.dtype} can hold (got {odd:g})"
        raise RequestError(reason, "round or clip them first")
    if cast.dtype.kind == "f" and not np.isfinite(cast).all():
        odd = array[~np.isfinite(cast)].flat[0]
        shown = repr(str(odd)) if isinstance(odd, str) else f"{odd:g}"
        raise RequestError(f"input {spec.name!r} must be finite numbers that {spec.dtype} can hold (got {shown})", "give such numbers")
    return cast


def _unreadable(value: Any, spec: TensorSpec) -> str:
    """The first element of a value that cannot be read as the input's dtype, or the start of the value."""
    try:
        items = np.asarray(value).ravel().tolist()
    except ValueError:  # parts that differ in length
        return repr(str(value)[:60])
    for item in items:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                np.asarray(item).astype(spec.numpy_dtype)
        except (TypeError, ValueError, OverflowError):
            return repr(item)[:60]
    return repr(str(value)[:60])


def _in_range(array: np.ndarray[Any, Any], spec: TensorSpec, sizes: Mapping[str, int]) -> None:
    """Raises RequestError for a value outside the valid range of a row of these sizes; the padding value is always valid."""
    low, high = spec.limits(sizes)
    grows = any(isinstance(size, str) for size in spec.shape[1:])
    values = array[array != spec.pad] if grows else array  # a client pads the rows of its batch as training does
    if not values.size or ((low is None or values.min() >= low) and (high is None or values.max() <= high)):
        return
    named = [limit for limit in (spec.low, spec.high) if isinstance(limit, str)]
    why = f"; the limit is this row's {' and '.join(named)}" if named else ""
    least, most = array.min(), array.max()
    found = f"(got {f'{least:g}' if least == most else f'{least:g} … {most:g}'}{why})"
    odd_pad = (low is not None and spec.pad < low) or (high is not None and spec.pad > high)
    padding = f", or {spec.pad:g} where a row ends early" if grows and odd_pad else ""
    raise RequestError(f"input {spec.name!r} is {_missed(low, high)} {found}", f"give values in range{padding}")


def _missed(low: float | None, high: float | None) -> str:
    """The part of an error message that says how a value is outside the valid range."""
    if high is None:
        return f"below {low:g}"
    if low is None:
        return f"above {high:g}"
    return f"outside {low:g} … {high:g}"


def _stack(rows: Sequence[np.ndarray[Any, Any]], pad: float) -> np.ndarray[Any, Any]:
    """Stack rows, padding each dimension at its end to the largest of the rows."""
    shape = tuple(max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True))
    batch = np.full((len(rows), *shape), pad, rows[0].dtype)
    for index, row in enumerate(rows):
        batch[index, *(slice(size) for size in row.shape)] = row  # type: ignore[index]
    return batch
