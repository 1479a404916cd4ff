"""Paddle's own pruning after training, of the eager model: of each four weights that are summed, the two smallest become zero.

Paddle prunes what its Linear and Conv2D layers hold, known by the name of the parameter, so not what a ParamAttr named
otherwise, and not where fewer than four are summed. The zeros are stored and multiplied as any other weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.common.arguments import Form
from paddleship.shipped.common.preprocess import Batch


def prune(layer: Any, _form: Form, _batches: Sequence[Batch]) -> Any:
    """The layer with 2:4 sparse weights. Raises CandidateError where it has none to prune, and what Paddle raises."""
    from paddle.incubate import asp

    masks = asp.prune_model(layer, n=2, m=4, with_mask=False)  # masks are for training on: they would ask for an optimizer
    own = [masks[parameter.name] for parameter in layer.parameters() if parameter.name in masks]
    if all(mask.all() for mask in own):
        named = "it takes Linear and Conv2D, unless a ParamAttr names their weights"
        why = "every Linear and Conv2D here sums fewer than four weights" if own else named
        raise CandidateError(f"Paddle found no layer in this model that it prunes: {why}")
    return layer
