"""Give a layer the weights that a file or a trainer holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.checkpoint_import.matching import Arrays, match
from paddleship.shipped.computing import layers


def apply(layer: Any, tree: Any, *, origin: str, key: str | None = None) -> Sequence[str]:
    """Set all weights of the layer from the arrays in `tree`. Returns what was done to them (see `matching.Match`).

    Raises ModelError if a weight is missing, does not fit or is not finite, or if weights that the model ties together differ.
    """
    _require_float32(layer)
    own = {name: np.asarray(tensor.numpy()) for name, tensor in layer.state_dict().items()}
    matched = match(tree, own, path=origin, key=key)
    _require_tied(layer, matched.weights, origin)
    if broken := next((name for name, count in building.not_finite(layer, matched.weights).items() if count), None):
        raise ModelError(f"{origin!r} holds NaN or infinity in {broken!r}: give weights from before the training diverged")
    layers.fill(layer, matched.weights)
    return matched.notes


def _require_float32(layer: Any) -> None:
    """Raise ModelError for a model with bfloat16 weights, which numpy cannot hold."""
    if odd := next((name for name, tensor in layer.state_dict().items() if "bfloat16" in str(tensor.dtype)), None):
        raise ModelError(f"the weight {odd!r} is bfloat16: build and train the model in float32; candidates in bfloat16 are made from it")


def _require_tied(layer: Any, weights: Arrays, origin: str) -> None:
    names = defaultdict(list)
    for name, tensor in layer.state_dict().items():
        names[id(tensor)].append(name)
    for first, *others in names.values():
        for other in others:
            if not np.array_equal(weights[first], weights[other], equal_nan=True):
                tied = f"{first!r} and {other!r}, which are one weight of the model"
                raise ModelError(f"{origin!r} holds different values for {tied}: give the checkpoint of a model that ties them")
