"""Read what `paddle.save` writes, which is a pickle, without running anything that it names.

A pickle may call any function. Here the few names that arrays need are replaced by functions of this module, which accept numbers only, and
every other name is refused.
"""

from __future__ import annotations

import math
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import ModelError

_NUMBERS = re.compile(r"[?fiu]\d*|b1")
_SLICES = "UnpackBigParamInfor@@"  # how arrays of more than 4 GB are kept: {name: {"OriginShape": …, "slices": names of flat arrays}}


def read(path: Path) -> Any:
    """The containers, numbers and arrays in the file; what paddle.save makes of a tensor, a pair of name and array, is the array.

    Raises ModelError for a file that is no pickle, is cut off, or names anything else.
    """
    try:
        with path.open("rb") as file:
            return _plain(_Reader(file, encoding="latin1").load())
    except _Refused as refused:
        raise ModelError(f"{str(path)!r} {refused}") from None
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{str(path)!r} is no file that paddle.save wrote, or it is incomplete ({reason}): copy it again") from None


class _Refused(Exception):
    """The file asks for more than numbers."""


class _Dtype:
    """Stands for numpy's dtype while the file is read."""

    def __init__(self, name: Any, *_: Any) -> None:
        text = _text(name)
        if _NUMBERS.fullmatch(text) is None:
            raise _Refused(f"holds values of numpy's dtype {text!r}, and weights are numbers: save the state_dict alone")
        self.value = np.dtype(text)

    def __setstate__(self, state: Sequence[Any]) -> None:
        if _text(state[1]) == ">":
            self.value = self.value.newbyteorder(">")


class _Array:
    """Stands for numpy's array."""

    value: np.ndarray[Any, Any]

    def __setstate__(self, state: Sequence[Any]) -> None:
        _, shape, dtype, in_columns, content = state
        self.value = _array(content, dtype, shape, "F" if in_columns else "C")


def _array(content: Any, dtype: Any, shape: Any, order: str) -> np.ndarray[Any, Any]:
    given = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(dtype, _Dtype) or not isinstance(given, bytes | bytearray | memoryview | pickle.PickleBuffer):
        raise ValueError("an array without numbers")
    if memoryview(given).nbytes != math.prod(shape) * dtype.value.itemsize:
        raise ValueError(f"an array of shape {list(shape)} with {memoryview(given).nbytes} bytes")
    numbers = np.frombuffer(memoryview(given).cast("B"), dtype.value).reshape(shape, order="F" if order == "F" else "C")
    return numbers.astype(dtype.value.newbyteorder("="), copy=False)


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    return _array(content, dtype, shape, str(order))


def _scalar(dtype: Any, content: Any) -> Any:
    return _array(content, dtype, (), "C")[()]


def _new_array(*_: Any) -> _Array:
    return _Array()


def _dense_tensor(expression: Any, names: Any) -> Any:
    """Older files have `eval("data", {"data": array})` for a tensor."""
    if expression != "data" or not isinstance(names, dict) or set(names) != {"data"}:
        raise _Refused(f"asks Python to run {str(expression)[:60]!r}, and nothing in a file of weights is run: do not trust it")
    return names["data"]


def _encode(text: str, encoding: str) -> bytes:
    """Older pickles hold bytes as text."""
    if encoding != "latin1":
        raise ValueError(f"bytes in {encoding!r}")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "eval"): _dense_tensor,
    ("builtins", "tuple"): tuple,
    ("builtins", "bytes"): lambda: b"",  # without bytes, which older pickles write so
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _new_array,
    ("numpy", "dtype"): _Dtype,
}
for _module in ("numpy.core", "numpy._core"):
    _KNOWN |= {
        (f"{_module}.multiarray", "_reconstruct"): _new_array,
        (f"{_module}.multiarray", "scalar"): _scalar,
        (f"{_module}.numeric", "_frombuffer"): _from_buffer,
    }


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) not in _KNOWN:
            advice = "if you trust its author, load it where it was made, and save the state_dict of the model alone"
            raise _Refused(f"names {module}.{name}, and only numbers and containers are read, so nothing of it was run: {advice}")
        return _KNOWN[module, name]


def _plain(value: Any) -> Any:
    """The value with real arrays; a big array is put together from its slices."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, Mapping):
        known = {name: _plain(part) for name, part in value.items()}
        for name, kept in known.pop(_SLICES, {}).items():
            known[name] = np.concatenate([known.pop(part).ravel() for part in kept["slices"]]).reshape(kept["OriginShape"])
        return known
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], _Array | np.ndarray):
        return _plain(value[1])
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
