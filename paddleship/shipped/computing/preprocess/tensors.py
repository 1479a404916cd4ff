"""Tensors: the column already is the model's input. Its dtype, shape, sizes and range are checked, and rows are stacked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess.measures import Array
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind
from paddleship.shipped.computing.preprocess.whole_numbers import digits, in_full
from paddleship.shipped.computing.spec import Dimension, TensorSpec

UNUSUAL = re.compile(r"_|[^\x00-\x7f]")  # in text that Python would read as a number: 1_5 is 15


@dataclass(frozen=True, kw_only=True)
class Tensor(InputEncoder):
    """A column that already is an input of the model."""

    is_input: ClassVar[bool] = True
    quick: ClassVar[bool] = True

    @property
    def content(self) -> Content | None:
        """Numbers of a fixed shape; a single whole number may be an id."""
        sizes, kind = self.spec.shape[1:], self.spec.numpy_dtype.kind
        if kind in "iub" and not sizes:
            return Content.CATEGORY
        return Content.NUMBERS if kind in "iubf" and all(isinstance(size, int) for size in sizes) else None

    def accept(self, value: Any) -> Any:
        return checked(value, self.request)

    def limited(self, values: Sequence[Any]) -> TensorSpec:
        """An integer limit that is not declared comes from the data."""
        spec = self.spec
        if spec.numpy_dtype.kind not in "iu" or (spec.low is not None and spec.high is not None) or not values:
            return spec
        flat = np.concatenate([np.ravel(np.asarray(value)) for value in values])
        low = int(flat.min()) if spec.low is None else spec.low  # int, because floats skip integers above 2**53
        return replace(spec, low=low, high=int(flat.max()) if spec.high is None else spec.high)

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:
        return Dimension(str(self.spec.shape[axis + 1])).over([np.shape(value)[axis] for value in values])

    def encode(self, value: Any) -> Array:
        return checked(value, self.request)

    def check(self, row: Array, sizes: Mapping[str, int], rules: Mapping[str, Dimension]) -> None:
        for name in self.spec.shape[1:]:
            if isinstance(name, str) and (rule := rules.get(name)) and not rule.allows(sizes[name]):
                reason = f"input {self.column!r} has size {sizes[name]} in the dimension {name!r}, the model takes {rule}"
                raise RequestError(reason, "give such a size")
        _in_range(row, self.request, sizes)


def checked(value: Any, spec: TensorSpec, *, missing: bool = False) -> Array:
    """A value as one row of a tensor, after checking its dtype and shape; with `missing`, numbers may be NaN. Raises RequestError."""
    dtype = spec.numpy_dtype
    try:
        array = in_full(spec.name, value, np.asarray(value), dtype)
        if array.dtype.kind in "SU" and dtype.kind == "b":
            raise TypeError("any text would count as true")
        if array.dtype.kind in "SU" and any(UNUSUAL.search(str(item)) for item in array.flat):
            raise ValueError("a separator of digits, or a digit of another script")
        with np.errstate(over="ignore", invalid="ignore"):  # values that do not fit are refused below
            cast = array.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise RequestError(f"input {spec.name!r} cannot be read as {spec.dtype} (got {_unreadable(value, spec)})", "give numbers") from None
    wanted = spec.shape[1:]
    fits = array.ndim == len(wanted) and all(isinstance(want, str) or want == got for want, got in zip(wanted, array.shape, strict=True))
    if not fits:
        raise RequestError(f"input {spec.name!r} has shape {list(array.shape)} per row, the model takes {list(wanted)}", "give that shape")
    if dtype.kind in "iub" and array.dtype.kind in "iuf" and not np.array_equal(cast, array):
        odd = array[cast != array].flat[0]
        reason = f"input {spec.name!r} must be whole numbers that {spec.dtype} can hold (got {digits(odd)})"
        raise RequestError(reason, "round or clip them first")
    valid = np.isfinite(cast) | (np.isnan(cast) if missing and array.dtype.kind not in "SU" else False) if cast.dtype.kind == "f" else True
    if not np.all(valid):
        odd = array[~valid].flat[0]
        shown = repr(str(odd)) if isinstance(odd, str) or odd is None else f"{odd:g}"
        raise RequestError(f"input {spec.name!r} must be finite numbers that {spec.dtype} can hold (got {shown})", "give such numbers")
    return cast


def _unreadable(value: Any, spec: TensorSpec) -> str:
    """The first element of a value that cannot be read as the input's dtype, or the start of the value."""
    try:
        items = np.asarray(value).ravel().tolist()
    except ValueError:  # parts that differ in length
        return repr(str(value)[:60])
    for item in items:
        if isinstance(item, str) and UNUSUAL.search(item):
            return repr(item)[:60]
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                np.asarray(item).astype(spec.numpy_dtype)
        except (TypeError, ValueError, OverflowError):
            return repr(item)[:60]
    return repr(str(value)[:60])


def _in_range(array: Array, spec: TensorSpec, sizes: Mapping[str, int]) -> None:
    """Raises RequestError for a value outside the valid range of a row of these sizes; the padding value is always valid."""
    low, high = spec.limits(sizes)
    grows = any(isinstance(size, str) for size in spec.shape[1:])
    values = array[array != spec.pad] if grows else array  # a client pads the rows of its batch as training does
    if not values.size or ((low is None or values.min() >= low) and (high is None or values.max() <= high)):
        return
    named = [limit for limit in (spec.low, spec.high) if isinstance(limit, str)]
    why = f"; the limit is this row's {' and '.join(named)}" if named else ""
    least, most = array.min(), array.max()
    found = f"(got {digits(least) if least == most else f'{digits(least)} … {digits(most)}'}{why})"
    odd_pad = (low is not None and spec.pad < low) or (high is not None and spec.pad > high)
    padding = f", or {digits(spec.pad)} where a row ends early" if grows and odd_pad else ""
    raise RequestError(f"input {spec.name!r} is {_missed(low, high)} {found}", f"give values in range{padding}")


def _missed(low: float | None, high: float | None) -> str:
    """The part of an error message that says how a value is outside the valid range."""
    if high is None:
        return f"below {digits(low)}"
    if low is None:
        return f"above {digits(high)}"
    return f"outside {digits(low)} … {digits(high)}"


KIND = Kind("tensors", Tensor, "the column already is the input", default=True)
