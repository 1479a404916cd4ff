"""Paddle's own quantisation after training, of the eager model, exported.

In Paddle 3.3 the export fails for a dynamic batch, and what it exports for fixed sizes only imitates 8 bits in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paddleship import model
from paddleship.conversion import exporting
from paddleship.eager import Subject
from paddleship.errors import CandidateError
from paddleship.preprocess import Batch
from paddleship.spec import TensorSpec

_BATCHES = 8


@dataclass(frozen=True)
class Quantiser:
    """Makes the program of one subject in int8, with these inputs, for one set of fixed sizes."""

    subject: Subject
    specs: Sequence[TensorSpec]
    fixed: Mapping[str, int]

    def __call__(self, _source: Path, target: Path, batches: Sequence[Batch]) -> None:
        """Raises CandidateError, in plain words where Paddle cannot export what it quantised."""
        import paddle
        from paddle.quantization import PTQ, QuantConfig
        from paddle.quantization.observers import AbsmaxObserver

        layer = model.build(self.subject.model)
        model.restore(layer, self.subject.checkpoint)
        layer.eval()
        ptq = PTQ(QuantConfig(activation=AbsmaxObserver(quant_bits=8), weight=AbsmaxObserver(quant_bits=8)))
        specs = [replace(spec, shape=tuple(self.fixed.get(str(size), size) for size in spec.shape)) for spec in self.specs]
        try:
            observed = ptq.quantize(layer)
            for batch in batches[:_BATCHES]:
                observed(*[paddle.to_tensor(batch[spec.name]) for spec in self.specs])
            exporting.convert_layer(ptq.convert(observed), target, specs)
        except Exception as failure:
            words = " ".join(str(failure).split())
            if "data[i] >= 0, but received data[i]:-1" in words:
                words = "it takes no dynamic dimension, such as the batch"
            raise CandidateError(f"Paddle {paddle.__version__} cannot quantise this model and export it: {words[-300:]}") from None
        if "quantize_linear" not in (target / "model.json").read_text(encoding="utf-8"):
            raise CandidateError("Paddle found no layer in this model that it quantises")
