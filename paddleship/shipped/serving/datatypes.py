"""The types and shapes of tensors as the Open Inference Protocol names them, in each of its forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.spec import TensorSpec

DATATYPES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "str": "BYTES",
    "bytes": "BYTES",
}
DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items()}
_OF_DTYPE = {np.dtype(dtype): datatype for dtype, datatype in DATATYPES.items() if datatype != "BYTES"}
MOST_DIMENSIONS = 32  # far more than models have; the product of very many takes long


def shape(spec: TensorSpec) -> list[int]:
    """The shape of an input or output; -1 is a dynamic dimension."""
    return [-1 if isinstance(size, str) else size for size in spec.shape]


def of_values(values: object) -> str:
    """The datatype of an array, or of a column of text."""
    return _OF_DTYPE[values.dtype] if isinstance(values, np.ndarray) else "BYTES"


def check_sizes(name: object, sizes: object) -> list[int]:
    """The shape that a client wrote for a tensor. Raises RequestError."""
    if not isinstance(sizes, list) or not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise RequestError(f"tensor {name!r} has the shape {sizes!r}: give a list of whole numbers, none below 0")
    if len(sizes) > MOST_DIMENSIONS:
        raise RequestError(f"tensor {name!r} has more than {MOST_DIMENSIONS} dimensions: send fewer")
    return sizes


def check_values(name: object, sizes: list[int]) -> int:
    """The number of values of BYTES with this shape. Raises RequestError."""
    if len(sizes) != 1:
        raise RequestError(f"tensor {name!r} of BYTES has the shape {sizes}: give the number of its values, as [1]")
    return sizes[0]


def shaped(name: object, array: np.ndarray[Any, Any], sizes: list[int]) -> np.ndarray[Any, Any]:
    """The array, which has as many values, in this shape. Raises RequestError for one with a 0 that no array has."""
    try:
        return array.reshape(sizes)
    except ValueError:
        raise RequestError(f"tensor {name!r} has the shape {sizes}, which is too large: send a smaller one") from None
