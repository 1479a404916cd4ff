"""The user's model in eager mode, with the same `run` as every runtime.

Proof and benchmark compare with it. The candidate made from the eager model is in `conversion.bundle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.params import Params
from paddleship.config.sections.code import Code
from paddleship.config.sections.model import Model
from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.float64 import Doubled
from paddleship.shipped.computing import layers
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Arrays, TensorSpec
from paddleship.shipped.computing.structure import Tree


@dataclass(frozen=True)
class SourceModel:
    """The eager model that is converted and proven: how to build it, its checkpoint, and where its code is."""

    model: Model
    checkpoint: Path
    seed: int = 0
    code: Code | None = None

    def build(self) -> Any:
        """A new layer with initial weights: of the factory, or of the program in the checkpoint. Raises ModelError."""
        return building.build(self.model) if self.model.factory else building.of_program(self.checkpoint)

    @classmethod
    def of(cls, params: Params) -> SourceModel:
        return cls(params.model, Path(params.paths.checkpoint), params.seed, params.code)


class Eager:
    """The checkpoint in eager mode, in float32 (the reference) or float64 (the truth), in evaluation mode without gradients.

    `static`: as `to_static` in memory, full graph, one program for the shapes of `specs`; without specs, one program per shape.
    `by_operator`: built in float32, and each operator computes in float64.
    """

    def __init__(
        self,
        source_model: SourceModel,
        *,
        dtype: str = "float32",
        static: bool = False,
        specs: Sequence[TensorSpec] = (),
        by_operator: bool = False,
    ) -> None:
        import paddle

        layer = _build(source_model, dtype)
        if dtype != "float32" and any(tensor.dtype == paddle.float32 for tensor in layer.state_dict().values()):
            _cast(layer, dtype)  # the factory made float32 anyway; not the default, because `to` fails on recurrent layers
        building.restore(layer, source_model.checkpoint)
        layer.eval()
        self._names = [spec.name for spec in source_model.model.inputs]
        self._dtype = dtype
        self._mode = nullcontext() if static else layers.Eagerly()
        self._doubled = Doubled() if by_operator else nullcontext()
        self._form = building.form(layer, source_model.model)
        arguments = self._form.give({spec.name: spec for spec in specs}) if specs else ()
        self._layer = building.to_static(layer, arguments) if static else layer
        self._paddle = paddle

    @property
    def single(self) -> list[str]:
        """The operators that computed in float32 although float64 was requested, so far."""
        return sorted(self._doubled.single) if isinstance(self._doubled, Doubled) else []

    @property
    def layer(self) -> Any:
        """The user's layer."""
        return self._layer

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        with self._paddle.no_grad(), self._mode, self._doubled:
            tensors = {name: self._paddle.to_tensor(self._cast(inputs[name])) for name in self._names}
            return {name: tensor.numpy() for name, tensor in building.forward(self._layer, self._form.give(tensors)).items()}

    def nesting(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Tree:
        """The nesting of forward's outputs."""
        with self._paddle.no_grad(), self._mode:
            tensors = {name: self._paddle.to_tensor(inputs[name]) for name in self._names}
            return building.nest_outputs(self._layer(*self._form.give(tensors)))[0]

    def _cast(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.astype(self._dtype) if array.dtype == np.float32 else array


def _build(source_model: SourceModel, dtype: str) -> Any:
    """Build the layer with `dtype` as Paddle's default, or set it afterwards for a factory that assigns float32 values."""
    try:
        return _build_with_dtype(source_model, dtype)
    except ModelError:
        if dtype == "float32":
            raise
        return _build_with_dtype(source_model, "float32")
    finally:
        _set_default(dtype)


def _build_with_dtype(source_model: SourceModel, dtype: str) -> Any:
    import paddle

    paddle.seed(source_model.seed)
    _set_default(dtype)
    return source_model.build()


def _cast(layer: Any, dtype: str) -> None:
    try:
        layer.to(dtype=dtype)
    except Exception as failure:
        raise ModelError(
            f"{type(layer).__name__} cannot be cast to {dtype} ({explain(failure)}): build it with Paddle's default dtype"
        ) from None


def _set_default(dtype: str) -> None:
    import paddle

    paddle.set_default_dtype(dtype)


def load(source_model: SourceModel) -> Eager:
    """Load the reference."""
    return Eager(source_model)


def load_static(source_model: SourceModel, specs: Sequence[TensorSpec]) -> Eager:
    """Load `to_static` in memory, full graph."""
    return Eager(source_model, static=True, specs=specs)
