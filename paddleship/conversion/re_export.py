"""Export the eager model again after Paddle changed it (post-training quantisation, pruning)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.conversion import exporting, shape_buckets
from paddleship.errors import CandidateError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import TensorSpec

ModelChange = Callable[[Any, ArgumentForm, Sequence[Batch]], Any]


@dataclass(frozen=True)
class ReExporter:
    """Exports the program of a source model for one set of fixed sizes, after `change`; error messages name `verb`.

    `change` gets the layer in evaluation mode, the mapping of inputs to arguments, and batches of real rows.
    """

    source_model: SourceModel
    specs: Sequence[TensorSpec]
    fixed: Mapping[str, int]
    change: ModelChange
    verb: str

    def __call__(self, _source: Path, target: Path, batches: Sequence[Batch]) -> None:
        """Raises CandidateError with a plain message if Paddle cannot export the changed model."""
        import paddle

        layer = self.source_model.build()
        building.restore(layer, self.source_model.checkpoint)
        layer.eval()
        try:
            form = building.form(layer, self.source_model.model)
            specs = {spec.name: spec for spec in shape_buckets.fixed(self.specs, self.fixed)}
            exporting.convert_layer(self.change(layer, form, batches), target, form.give(specs))
        except CandidateError:
            raise
        except Exception as failure:
            reason = " ".join(str(failure).split())
            if "data[i] >= 0, but received data[i]:-1" in reason:
                reason = "it takes no dynamic dimension, such as the batch"
            raise CandidateError(f"Paddle {paddle.__version__} cannot {self.verb} this model and export it: {reason[-300:]}") from None
