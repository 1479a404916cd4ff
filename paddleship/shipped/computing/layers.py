"""Build a layer with its factory and set its weights; the same code in training, proof and image.

This module goes into the image, so it imports only Paddle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

WEIGHTS = "weights.safetensors"


def make(factory: Callable[[], Any]) -> Any:
    """Call the factory. If it fixes parameter names and was called before, Paddle accepts it only with new names."""
    import paddle

    try:
        return factory()
    except Exception:
        with paddle.utils.unique_name.guard():
            return factory()


def fill(layer: Any, weights: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """Set the weights of a layer, cast to its dtypes. Returns the names that do not fit; then nothing was changed."""
    own = layer.state_dict()
    shapes = {name: list(tensor.shape) for name, tensor in own.items()}
    odd = sorted(name for name in own.keys() | weights.keys() if name not in own or name not in weights)
    odd += sorted(name for name in own.keys() & weights.keys() if shapes[name] != list(weights[name].shape))
    if not odd:
        dtypes = {name: str(tensor.dtype).removeprefix("paddle.") for name, tensor in own.items()}
        layer.set_state_dict({name: array.astype(dtypes[name]) for name, array in weights.items()})
    return odd


class Eagerly:
    """A block in which code that the user decorated with `paddle.jit.to_static` runs eagerly."""

    def __init__(self) -> None:
        from paddle.jit.dy2static.program_translator import ProgramTranslator

        self._translator = ProgramTranslator.get_instance()

    def __enter__(self) -> None:
        self._translator.enable_to_static = False

    def __exit__(self, *_: object) -> None:
        self._translator.enable_to_static = True
