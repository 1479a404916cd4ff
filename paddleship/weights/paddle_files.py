"""Read the weights of a Paddle program: names are in model.json, values in model.pdiparams, sorted by name.

Before each tensor's bytes are a version (4 bytes), the levels of detail (8, none are expected), another version (4), and a
description (protobuf) of dtype and shape with its size.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.conversion import pir
from paddleship.errors import CandidateError
from paddleship.numerics.differences import Array
from paddleship.weights.candidate_tensors import Tensor, Tensors, dequantised

_HEAD = struct.Struct("<IQII")
# numbers of Paddle's VarType; numpy has no bfloat16, so its bytes are compared
_DTYPES = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1", 22: "<u2", 23: "<c8", 24: "<c16"}
_COPIES = re.compile(r"(_deepcopy_\d+)+$")  # Paddle's suffix for a parameter of a copied layer in quantisation
_QUANTISED = 127
_LONGEST = 1_000  # bytes of a description that are read
_PERSISTABLE = 0  # index among a parameter's flags; the state of a dropout is not in the file


def read(folder: Path) -> Tensors:
    """The tensors of the program in `folder`. Raises CandidateError if files are incomplete or do not fit each other."""
    try:
        program = json.loads((folder / "model.json").read_text(encoding="utf-8"))["program"]
        operators = [operator for block in pir.blocks(program) for operator in block["ops"]]
        shapes = {_name(operator): _shape(operator) for operator in operators if operator["#"] == "p" and operator["OA"][_PERSISTABLE]}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CandidateError(f"{folder / 'model.json'} cannot be read ({type(error).__name__}: {error})") from None
    path = folder / "model.pdiparams"
    if not shapes and not path.exists():
        return {}
    try:
        arrays = dict(_arrays(path, path.read_bytes(), shapes))
    except OSError as error:
        raise CandidateError(f"{path} cannot be read ({error.strerror})") from None
    return {_COPIES.sub("", name): tensor for name, tensor in _dequantise(operators, arrays).items()}


def _name(parameter: Mapping[str, Any]) -> str:
    return str(parameter["A"][3])


def _shape(parameter: Mapping[str, Any]) -> list[int]:
    return list(parameter["O"]["TT"]["D"][1])


def _arrays(path: Path, content: bytes, shapes: Mapping[str, list[int]]) -> Iterator[tuple[str, Array]]:
    offset = 0
    for name in sorted(shapes):
        if offset + _HEAD.size > len(content):
            raise CandidateError(f"{path} ends before {name!r}, after {len(content):,} bytes")
        _, levels, _, size = _HEAD.unpack_from(content, offset)
        kind, shape = _description(content[offset + _HEAD.size : offset + _HEAD.size + min(size, _LONGEST)])
        if levels or kind not in _DTYPES or shape != shapes[name]:
            raise CandidateError(f"{path} holds another tensor than the program's {name!r} ({shape}, expected {shapes[name]})")
        dtype, count = np.dtype(_DTYPES[kind]), int(np.prod(shape, dtype=np.int64))
        offset += _HEAD.size + size
        if offset + count * dtype.itemsize > len(content):
            raise CandidateError(
                f"{path} ends within {name!r}, after {len(content):,} of {offset + count * dtype.itemsize:,} bytes and more"
            )
        yield name, np.frombuffer(content, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
    if offset < len(content):
        raise CandidateError(f"{path} has {len(content) - offset:,} bytes after the last tensor of the program")


def _description(content: bytes) -> tuple[int, list[int]]:
    """Dtype and shape in a protobuf of integers: field 1, and field 2 repeated or packed."""
    kind, shape, offset = -1, [], 0
    while offset < len(content):
        key, offset = _number(content, offset)
        value, offset = _number(content, offset)
        if key == 0x08:
            kind = value
        elif key == 0x10:
            shape.append(value)
        else:  # 0x12, packed: the value was the number of bytes
            end = min(offset + value, len(content))
            while offset < end:
                value, offset = _number(content, offset)
                shape.append(value)
    return kind, shape


def _number(content: bytes, offset: int) -> tuple[int, int]:
    """A protobuf integer, and the position after it."""
    value = shift = 0
    while offset < len(content):
        byte = content[offset]
        value, shift, offset = value | (byte & 0x7F) << shift, shift + 7, offset + 1
        if byte < 0x80:
            break
    return value, offset


def _dequantise(operators: list[dict[str, Any]], arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """The tensors; those that the program dequantises are dequantised."""
    names = {operator["O"]["%"]: _name(operator) for operator in operators if operator["#"] == "p"}
    tensors = {name: Tensor(array) for name, array in arrays.items()}
    for operator in operators:
        if operator["#"] != "1.dequantize_linear":
            continue
        codes, scale, zero = (names.get(value["%"]) for value in operator["I"][:3])
        if codes and scale and zero:
            axis = int(pir.attribute(operator, "quant_axis"))
            tensors[codes] = dequantised(arrays[codes], arrays[scale] / _QUANTISED, arrays[zero], axis=axis)
    return tensors
