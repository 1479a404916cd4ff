"""The types and shapes of tensors as the Open Inference Protocol names them, in each of its forms."""

from __future__ import annotations

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


def shape(spec: TensorSpec) -> list[int]:
    """The shape of an input or output; -1 is a dynamic dimension."""
    return [-1 if isinstance(size, str) else size for size in spec.shape]
