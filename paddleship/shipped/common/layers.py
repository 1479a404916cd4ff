"""A layer that is made by a factory and filled with weights; in training, under proof, and in the image alike.

This module goes into the image, so it needs Paddle and nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

WEIGHTS = "weights.safetensors"


def make(factory: Callable[[], Any]) -> Any:
    """What the factory makes; where it fixes the names of parameters and was called before, Paddle lets it only under new names."""
    import paddle

    try:
        return factory()
    except Exception:
        with paddle.utils.unique_name.guard():
            return factory()


def fill(layer: Any, weights: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """Give a layer these weights, cast to the dtypes that it has; the names that do not fit, in which case nothing was changed."""
    own = layer.state_dict()
    shapes = {name: list(tensor.shape) for name, tensor in own.items()}
    odd = sorted(name for name in own.keys() | weights.keys() if name not in own or name not in weights)
    odd += sorted(name for name in own.keys() & weights.keys() if shapes[name] != list(weights[name].shape))
    if not odd:
        dtypes = {name: str(tensor.dtype).removeprefix("paddle.") for name, tensor in own.items()}
        layer.set_state_dict({name: array.astype(dtypes[name]) for name, array in weights.items()})
    return odd


class Eagerly:
    """A block in which what the user decorated with `paddle.jit.to_static` runs as eager code; it costs next to nothing at every call."""

    def __init__(self) -> None:
        from paddle.jit.dy2static.program_translator import ProgramTranslator

        self._translator = ProgramTranslator.get_instance()

    def __enter__(self) -> None:
        self._translator.enable_to_static = False

    def __exit__(self, *_: object) -> None:
        self._translator.enable_to_static = True
