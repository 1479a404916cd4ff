"""The types of tensors in the Open Inference Protocol, as its independent client knows them."""

from __future__ import annotations

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
