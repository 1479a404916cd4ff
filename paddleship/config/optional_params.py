"""The params with every key optional, for values that are laid over params.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from paddleship.config.params import Params
from paddleship.config.sections.optimize import Optimize
from paddleship.config.sections.section import Section


def overrides(candidates: Sequence[str]) -> type[Section]:
    """The params with every key optional, for values laid over params.yaml; Prefect's form offers these candidates."""
    kind: Any = Literal[tuple(candidates)]
    field = Optimize.model_fields["candidates"]
    chosen: Any = (Annotated[list[kind], Field(min_length=1)] | None, Field(None, description=field.description))
    optimize: Any = create_model("Optimize", __base__=Optimize, candidates=chosen)
    section: Any = (optimize, Field(optimize(), description=Params.model_fields["optimize"].description))
    return optional(create_model("Params", __base__=Params, optimize=section))


def optional(model: type[Section]) -> type[Section]:
    """The section with every key optional."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            kind = optional(kind)
        elif field.metadata:
            kind = Annotated[(kind, *field.metadata)]
        fields[name] = (kind | None, Field(None, description=field.description))
    return create_model(f"{model.__name__}Overrides", __base__=Section, **fields)
