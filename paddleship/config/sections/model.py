"""The section `model`: the user's model and its inputs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from paddleship.config import rules
from paddleship.config.sections.section import Positive, Reference, Section, require_once
from paddleship.config.validation_errors import whole
from paddleship.shipped.computing import arguments
from paddleship.shipped.computing.spec import Dimension, TensorSpec


class Input(Section):
    name: str = Field(description="name of the argument of forward, or of its element")
    dtype: Literal["float32", "float64", "int32", "int64", "bool"] = Field(description="element type of the tensor")
    shape: list[int | str] = Field(description="sizes of the dimensions; a dynamic one has a name, such as 'batch'")
    low: float | str | None = Field(None, description="smallest valid value, or the dimension whose size in the same row is the smallest")
    high: float | str | None = Field(None, description="largest valid value, or a dimension, as in 'length' or 'length - 1'")
    pad: float = Field(0, description="value that pads rows of different sizes")

    @field_validator("low", "high", mode="before")
    @classmethod
    def _numbers_first(cls, value: Any) -> Any:
        """Convert a number that YAML reads as text, such as 1e-3."""
        try:
            return float(value) if isinstance(value, str) else value
        except ValueError:
            return value

    @model_validator(mode="after")
    def _range_in_order(self) -> Input:
        if isinstance(self.low, float) and isinstance(self.high, float) and self.low > self.high:
            raise whole(f"low must be at most high (got {self.low:g} and {self.high:g}): swap or correct them")
        return self

    def spec(self) -> TensorSpec:
        return TensorSpec(self.name, self.dtype, tuple(self.shape), self.low, self.high, self.pad)


class Size(Section):
    """The sizes that one row may have in a dynamic dimension; a limit that is left out comes from the data."""

    low: Positive | None = Field(None, description="smallest size; null: from the data")
    high: Positive | None = Field(None, description="largest size; null: from the data")
    multiple_of: Positive = Field(1, description="sizes are multiples of it")

    @model_validator(mode="after")
    def _any_size(self) -> Size:
        rule = self.rule("")
        if self.high is not None and rule.smallest > self.high:
            raise whole(f"no size satisfies the rule (got {rule}): lower low or multiple_of, or raise high")
        return self

    def rule(self, name: str) -> Dimension:
        return Dimension(name, self.low or 1, self.high, self.multiple_of)


class Model(Section):
    factory: Reference | None = Field(None, description="module:function that builds the model; null for train.source.exported")
    kwargs: dict[str, Any] = Field({}, description="arguments of the factory, by name")
    inputs: Annotated[list[Input], Field(min_length=1)] = Field(description="inputs of the model, in the order of forward's arguments")
    absent: list[str] = Field([], description="arguments of forward, or elements of them, that are None")
    dimensions: dict[str, Size] = Field({}, description="sizes that a dynamic dimension may have")

    @property
    def title(self) -> str:
        """The model in messages."""
        return self.factory or "the exported program"

    @property
    def rules(self) -> tuple[Dimension, ...]:
        return tuple(size.rule(name) for name, size in self.dimensions.items())

    @model_validator(mode="after")
    def _names_once(self) -> Model:
        names = [item.name for item in self.inputs]
        require_once([*names, *self.absent], "inputs")
        arguments.declared(names, self.absent)
        return self

    @model_validator(mode="after")
    def _rules_of_dimensions(self) -> Model:
        if fault := rules.fault([item.spec() for item in self.inputs], self.rules):
            raise whole(fault)
        return self
