"""The model as its author wrote it, behind the same `run` as every deployable runtime.

These need the model's Python code, so they never ship; parity and benchmark measure against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship import model
from paddleship.params import Params
from paddleship.runtimes import Arrays


class Eager:
    """The checkpoint in eager mode, float32 (the reference) or float64 (the truth); evaluation mode, no gradients."""

    def __init__(self, params: Params, *, dtype: str = "float32", static: bool = False) -> None:
        import paddle

        paddle.seed(params.seed)
        paddle.set_default_dtype(dtype)
        layer = model.build(params.model)
        if dtype != "float32" and any(tensor.dtype == paddle.float32 for tensor in layer.state_dict().values()):
            layer.to(dtype=dtype)  # the factory asked for float32 by name; `to` fails on recurrent layers, so it is not the rule
        model.restore(layer, Path(params.paths.checkpoint))
        layer.eval()
        self._names = [spec.name for spec in params.model.inputs]
        self._dtype = dtype
        self._layer = paddle.jit.to_static(layer, full_graph=True) if static else layer
        self._paddle = paddle

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        with self._paddle.no_grad():
            tensors = [self._paddle.to_tensor(self._cast(inputs[name])) for name in self._names]
            return {name: tensor.numpy() for name, tensor in model.forward(self._layer, tensors).items()}

    def _cast(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.astype(self._dtype) if array.dtype == np.float32 else array


def load(params: Params) -> Eager:
    """The reference."""
    return Eager(params)


def load_truth(params: Params) -> Eager:
    """The truth: weights, constants and inputs in float64."""
    return Eager(params, dtype="float64")


def load_static(params: Params) -> Eager:
    """`to_static` in memory, full graph."""
    return Eager(params, static=True)
