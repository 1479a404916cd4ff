"""Paddle's own post-training quantisation of the eager model.

In Paddle 3.3, the export fails for a dynamic batch, and for fixed sizes it exports a float32 simulation of int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Batch

_BATCHES = 8


def quantise(layer: Any, form: ArgumentForm, batches: Sequence[Batch]) -> Any:
    """The layer in int8, calibrated with the batches. Raises CandidateError if nothing can be quantised, and Paddle's own errors."""
    import paddle
    from paddle.quantization import PTQ, BaseObserver, QuantConfig
    from paddle.quantization.observers import AbsmaxObserver

    ptq = PTQ(QuantConfig(activation=AbsmaxObserver(quant_bits=8), weight=AbsmaxObserver(quant_bits=8)))
    observed = ptq.quantize(layer)
    if not any(isinstance(part, BaseObserver) for part in observed.sublayers()):
        raise CandidateError("Paddle found no layer in this model that it quantises")
    for batch in batches[:_BATCHES]:
        observed(*form.give({name: paddle.to_tensor(array) for name, array in batch.items()}))
    return ptq.convert(observed)
