"""Read what `paddle.save` writes, which is a pickle, without running anything that it names.

A pickle may call any function. Here the few names that arrays need are replaced by functions of this module, which accept numbers only, and
every other name is refused.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import ModelError

_NUMBERS = re.compile(r"[?fiu]\d*|b1")
_OBJECTS = frozenset({"EXT1", "EXT2", "EXT4", "OBJ", "INST", "NEWOBJ_EX", "PERSID", "BINPERSID"})
_MEMOS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"})
_DEEPEST = 100  # tuples of one element in each other
_DAMAGE = (
    pickle.UnpicklingError, EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError, RecursionError, OverflowError,
    MemoryError, BufferError,
)  # fmt: skip
_SLICES = "UnpackBigParamInfor@@"  # how arrays of more than 4 GB are kept: {name: {"OriginShape": …, "slices": names of flat arrays}}


def read(path: Path) -> Any:
    """The containers, numbers and arrays in the file; what paddle.save makes of a tensor, a pair of name and array, is the array.

    Raises ModelError for a file that is no pickle, is cut off, or names anything else.
    """
    try:
        with path.open("rb") as file:
            _require_tame(file, path.stat().st_size)
            file.seek(0)
            return _plain(_Reader(file, encoding="latin1").load(), {})
    except _Refused as refused:
        raise ModelError(f"{str(path)!r} {refused}") from None
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{str(path)!r} is no file that paddle.save wrote, or it is incomplete ({reason}): copy it again") from None


def _require_tame(file: Any, size: int) -> None:
    """Raise _Refused for what no writer of weights uses and what can exhaust or crash the reader: objects, far memos, deep tuples."""
    if file.read(2) == b"PK":
        raise _Refused("is a zip file, as PyTorch writes it: convert it to Paddle's state_dict first")
    file.seek(0)
    deep = 0
    for operation, argument, position in pickletools.genops(file):
        deep = deep + 1 if operation.name == "TUPLE1" else 0
        if operation.name in _OBJECTS or deep > _DEEPEST:
            raise _Refused(f"holds {operation.name} at byte {position}, which no file of weights needs: do not trust it")
        if operation.name in _MEMOS and int(str(argument)) > size:
            raise _Refused(f"names an object that it cannot hold, at byte {position}: do not trust it")


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


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray[Any, Any]:
    """`axes`: the order of the axes in `content`, for an array that is neither by rows nor by columns."""
    if axes is None:
        return _array(content, dtype, shape, str(order))
    return _array(content, dtype, shape, "C").transpose(np.argsort(axes))


def _scalar(dtype: Any, content: Any) -> Any:
    return _array(content, dtype, (), "C")[()]


def _new_array(*_: Any) -> _Array:
    return _Array()


def _dense_tensor(expression: Any, names: Any) -> Any:
    """Older files have `eval("data", {"data": array})` for a tensor."""
    if expression != "data" or not isinstance(names, dict) or set(names) != {"data"}:
        code = expression[:60] if isinstance(expression, str) else type(expression).__name__
        raise _Refused(f"asks Python to run {code!r}, and nothing in a file of weights is run: do not trust it")
    return names["data"]


def _encode(text: str, encoding: str) -> bytes:
    """Older pickles hold bytes as text."""
    if encoding != "latin1":
        raise ValueError("bytes in another encoding than latin1")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "eval"): _dense_tensor,
    ("builtins", "tuple"): tuple,
    ("builtins", "bytes"): lambda: b"",  # without bytes, which older pickles write so
    ("collections", "OrderedDict"): dict,
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
        known = _KNOWN[module, name]
        return lambda *arguments: known(*arguments)  # of its own, so that what the file sets on it is lost


def _plain(value: Any, done: dict[int, Any]) -> Any:
    """The value with real arrays; a big array is put together from its slices. `done` has the containers that were seen, by id."""
    if isinstance(value, _Array):
        return value.value
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, Mapping):
        known = done[id(value)] = {name: _plain(part, done) for name, part in value.items()}
        for name, kept in known.pop(_SLICES, {}).items():
            known[name] = np.concatenate([known.pop(part).ravel() for part in kept["slices"]]).reshape(kept["OriginShape"])
        return known
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], _Array | np.ndarray):
        return _plain(value[1], done)
    if isinstance(value, list | tuple):
        done[id(value)] = [_plain(part, done) for part in value]
        return done[id(value)]
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise ValueError(f"a {type(value).__name__} in place of text")
    return value.decode("latin1") if isinstance(value, bytes) else value
