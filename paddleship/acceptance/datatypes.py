"""The types of tensors in the Open Inference Protocol, as its independent client knows them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np


def array_type(datatype: str) -> np.dtype[Any]:
    """The numpy dtype of the protocol's `datatype`."""
    from tritonclient.utils import triton_to_np_dtype

    found: np.dtype[Any] = np.dtype(triton_to_np_dtype(datatype))
    return found


def datatype(array: np.ndarray[Any, Any]) -> str:
    """The protocol's datatype of an array."""
    from tritonclient.utils import np_to_triton_dtype

    return str(np_to_triton_dtype(array.dtype))


def as_text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with the bytes of an output as the text that they are."""
    if array.dtype.kind != "O":
        return array
    return np.array([value.decode() if isinstance(value, bytes) else value for value in array.ravel()], dtype=object).reshape(array.shape)


def from_json(values: Sequence[str]) -> list[bytes]:
    """The bytes that `in_json` made base64 of."""
    return [base64.b64decode(value) for value in values]


def in_json(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with bytes as base64, which JSON can hold."""
    if array.dtype.kind != "O":
        return array
    return np.array([base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in array], dtype=object)
