"""Paddle's own pruning of the eager model after training: of every four weights that are added up, the two smallest become zero.

Paddle prunes the weights of Linear and Conv2D, which it recognises by the name of the parameter. So it skips weights that a
ParamAttr names, and layers that add up fewer than four. Zeros are stored and multiplied like other weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Batch


def prune(layer: Any, _form: ArgumentForm, _batches: Sequence[Batch]) -> Any:
    """The layer with 2:4 sparse weights. Raises CandidateError if it has none to prune, and Paddle's own errors."""
    from paddle.incubate import asp

    masks = asp.prune_model(layer, n=2, m=4, with_mask=False)  # masks are for further training and would need an optimizer
    own = [masks[parameter.name] for parameter in layer.parameters() if parameter.name in masks]
    if all(mask.all() for mask in own):
        named = "it takes Linear and Conv2D, unless a ParamAttr names their weights"
        why = "every Linear and Conv2D here sums fewer than four weights" if own else named
        raise CandidateError(f"Paddle found no layer in this model that it prunes: {why}")
    return layer
