"""Valid ranges and sizes of the inputs: as declared, otherwise as the kind of an input knows them, or those of the data in all parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddleship.config.sections.model import Model
from paddleship.errors import DataError
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.preprocess.registration import InputEncoder
from paddleship.shipped.computing.spec import Dimension, TensorSpec, row_dimensions

Columns = Sequence[Mapping[str, Sequence[Any]]]


def inputs(preprocess: Preprocess, columns: Columns) -> list[TensorSpec]:
    """The model's inputs with their ranges; `preprocess` is fitted. Raises DataError."""
    return [one.limited(_values(one, columns)) for one in preprocess.encoders]


def dimensions(model: Model, preprocess: Preprocess, columns: Columns) -> list[Dimension]:
    """The sizes of every dynamic dimension besides the batch. Raises DataError if two inputs need different sizes of one."""
    return [_sizes(name, model, preprocess, columns) for name in row_dimensions(preprocess.specs)]


def _values(one: InputEncoder, columns: Columns) -> list[Any]:
    return [value for part in columns for value in part.get(one.column, [])]


def _sizes(name: str, model: Model, preprocess: Preprocess, columns: Columns) -> Dimension:
    rules: dict[Dimension, str] = {}
    for one in preprocess.encoders:
        for axis in (axis for axis, size in enumerate(one.spec.shape[1:]) if size == name):
            rules.setdefault(one.sizes(axis, _values(one, columns)), one.spec.name)
    if len(rules) > 1:
        (rule, first), (other, second) = list(rules.items())[:2]
        raise DataError(
            f"inputs {first!r} and {second!r} share the dimension {name!r}, and have the sizes {rule} and {other}: name the dimensions "
            "differently in model.inputs"
        )
    rule, declared = next(iter(rules)), model.dimensions.get(name)
    if declared is None:
        return rule
    return Dimension(name, declared.low or rule.low, declared.high or rule.high, declared.multiple_of)
