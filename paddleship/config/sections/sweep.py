"""The section `sweep`: variants of the params, and the choice of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from paddleship.config.sections.section import Positive, Section
from paddleship.config.validation_errors import whole


class Range(Section):
    """The numbers from `low` to `high`; whole ones if both ends are whole."""

    low: int | float = Field(description="smallest number")
    high: int | float = Field(description="largest number")
    log: bool = Field(False, description="draw evenly on a logarithmic scale")

    @model_validator(mode="after")
    def _range_in_order(self) -> Range:
        if self.low >= self.high:
            raise whole(f"low must be below high (got {self.low:g} and {self.high:g}): swap or correct them")
        if self.log and self.low <= 0:
            raise whole(f"low must be above 0 with log (got {self.low:g}): raise it, or leave log out")
        return self


_Choices = Annotated[list[Any], Field(min_length=1)]
_Values = Annotated[
    Annotated[Range, Tag("range")] | Annotated[_Choices, Tag("list")],
    Discriminator(lambda value: "range" if isinstance(value, Mapping | Range) else "list"),
]


class Sweep(Section):
    """The variants of the params that `paddleship sweep` runs, and the rule by which it chooses one."""

    space: dict[str, _Values] = Field(
        {},
        description="param by its path, such as train.learning_rate: a list of values, or {low, high, log} for the numbers between",
    )
    method: Literal["grid", "random", "optuna"] = Field(
        "grid", description="grid: all combinations of lists; random; optuna: at random first, then near the best variants (TPE)"
    )
    trials: Positive = Field(16, description="most variants")
    parallel: Positive = Field(2, description="variants that run at the same time")
    until: Literal["benchmark", "package", "accept"] = Field(
        "benchmark", description="the last stage of every variant; accept registers the best one as challenger"
    )
    choose: Literal["score", "latency", "size"] = Field(
        "score", description="the best variant has the best of this; where the intervals do not decide, of the others"
    )
    min_score: Annotated[float, Field(le=1)] | None = Field(
        None, description="a variant whose validation score is below it cannot be chosen"
    )
    max_p50_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="a variant above it, or with a p50 that is not valid, cannot be chosen"
    )
    max_size_bytes: Positive | None = Field(
        None, description="a variant above it cannot be chosen: of the winner's files, or of the image where package ran"
    )

    @model_validator(mode="after")
    def _lists_for_a_grid(self) -> Sweep:
        ranges = [path for path, values in self.space.items() if isinstance(values, Range)]
        if self.method == "grid" and ranges:
            raise whole(f"space of a grid must hold lists (got a range for {ranges[0]}): write a list of values, or take method random")
        for path, values in self.space.items():
            written = [json.dumps(value, sort_keys=True, default=str) for value in values] if isinstance(values, list) else []
            if twice := next((value for value in written if written.count(value) > 1), None):
                raise whole(f"space must list every value of {path} once (got {twice} {written.count(twice)} times): remove one")
        return self
