"""Valid ranges and sizes of the inputs: as declared, otherwise those of the data in all parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paddleship.config.sections.model import Model
from paddleship.errors import DataError
from paddleship.shipped.computing.spec import Dimension, TensorSpec, row_dimensions

Columns = Sequence[Mapping[str, Sequence[Any]]]


def inputs(model: Model, preprocess: Mapping[str, Any], columns: Columns) -> list[TensorSpec]:
    """The model's inputs. An integer limit that is not declared comes from the data, or from the vocabulary."""
    specs = []
    for spec in (item.spec() for item in model.inputs):
        values = [value for part in columns for value in part.get(spec.name, [])]
        if preprocess["kind"] == "characters" and spec.name == preprocess["input"]:
            specs.append(_of_vocabulary(spec, len(preprocess["vocabulary"]) + 1))
        elif spec.numpy_dtype.kind in "iu" and (spec.low is None or spec.high is None) and values:
            flat = np.concatenate([np.ravel(np.asarray(value)) for value in values])
            low = int(flat.min()) if spec.low is None else spec.low  # int, because floats skip integers above 2**53
            specs.append(replace(spec, low=low, high=int(flat.max()) if spec.high is None else spec.high))
        else:
            specs.append(spec)
    return specs


def dimensions(model: Model, preprocess: Mapping[str, Any], columns: Columns) -> list[Dimension]:
    """The sizes of every dynamic dimension besides the batch. For text, they follow from truncation and padding."""
    specs = [item.spec() for item in model.inputs]
    if preprocess["kind"] == "characters":
        step = preprocess["multiple_of"]
        longest = -(-preprocess["max_length"] // step) * step
        return [Dimension(name, step, longest, step) for name in row_dimensions(specs)]
    return [_sizes(name, model, specs, columns) for name in row_dimensions(specs)]


def _of_vocabulary(spec: TensorSpec, last: int) -> TensorSpec:
    low, high = (0 if spec.low is None else spec.low), (last if spec.high is None else spec.high)
    if isinstance(low, str) or isinstance(high, str) or low > 0 or high < last:
        raise DataError(
            f"model.inputs gives {spec.name!r} the range {low} … {high}, but preprocess makes ids from 0 to {last}: remove low and high, "
            "or set preprocess.vocabulary_size"
        )
    return replace(spec, low=float(low), high=float(high))


def _sizes(name: str, model: Model, specs: Sequence[TensorSpec], columns: Columns) -> Dimension:
    declared = model.dimensions.get(name)
    spec, axis = next((spec, axis) for spec in specs for axis, size in enumerate(spec.shape[1:]) if size == name)
    seen = [np.shape(value)[axis] for part in columns for value in part.get(spec.name, [])]
    low = declared.low if declared and declared.low else min(seen, default=1)
    high = declared.high if declared and declared.high else max(seen, default=None)
    return Dimension(name, low, high, declared.multiple_of if declared else 1)
