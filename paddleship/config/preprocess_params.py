"""The params of preprocess kinds: made from the fields that each kind declares, and checked when the params are read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, Field, create_model

from paddleship.config.validation_errors import whole
from paddleship.shipped.computing.preprocess import registry
from paddleship.shipped.computing.preprocess.registration import Kind

Base = TypeVar("Base", bound=BaseModel)


def with_short_kinds(base: type[Base]) -> type[Base]:
    """The section with the params of the kinds that may stand in it directly; a kind from a user's package may not."""
    fields: dict[str, Any] = {}
    for kind in short_kinds().values():
        fields |= {key: field for key, field in _fields(kind, prefix=f"{kind.name}: ").items() if key not in base.model_fields}
    return create_model("ShortPreprocess", __base__=base, **fields)


@cache
def short_kinds() -> Mapping[str, Kind]:
    """The kinds of paddleship whose params may stand in the section directly, by name."""
    return {name: one.registration for name, one in registry.ours().items() if one.registration.short}


def description() -> str:
    """What the kinds do that may stand in the section directly."""
    return "; ".join(f"{kind.name}: {kind.description}" for kind in (registry.default(), *short_kinds().values()))


def keys(kind: str) -> list[str]:
    """The params of a kind."""
    return [one.name for one in registry.get(kind).params]


def require_short(kind: str) -> None:
    """Raise an error for a kind whose params do not stand in the section directly."""
    if kind in short_kinds() or kind == registry.default().name:
        return
    _require_known(kind)
    raise whole(
        f"kind {kind!r} must be written for each input: "
        f"preprocess: {{inputs: {{NAME: {{kind: {kind}, column: COLUMN}}}}}} (got it directly below preprocess)"
    )


def entry(value: Any, base: type[BaseModel]) -> dict[str, Any]:
    """The params of one input, with the defaults of its kind; `base` is the base of all sections. Raises errors of pydantic."""
    if not isinstance(value, Mapping):
        raise whole(f"must be a mapping with the kind of the input (got {value!r}): write {{kind: …, column: …}}")
    kind = value.get("kind", registry.default().name)
    _require_known(kind)
    section = _section(kind, base)
    if strange := next((key for key in value if key not in section.model_fields), None):
        near = difflib.get_close_matches(str(strange), section.model_fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(sorted(section.model_fields))}"
        raise whole(f"unknown key {strange!r} of the kind {kind!r} ({hint})")
    return section.model_validate(dict(value)).model_dump()


def _require_known(kind: object) -> None:
    if not isinstance(kind, str) or (kind not in registry.ours() and kind not in registry.found()):
        raise whole(f"{registry.unknown(kind)}: correct kind, or install the package that registers it")


@cache
def _section(kind: str, base: type[BaseModel]) -> type[BaseModel]:
    """The pydantic model of an entry of this kind."""
    common: dict[str, Any] = {
        "kind": (str, Field(kind, description="how the column becomes the input")),
        "column": (str | None, Field(None, description="column that the input is made from; null: that of the input's name")),
    }
    return create_model(f"Preprocess_{kind}", __base__=base, **common, **_fields(registry.get(kind)))


def _fields(kind: Kind, *, prefix: str = "") -> dict[str, Any]:
    """The params of a kind as fields of a pydantic model."""
    hints = get_type_hints(kind.encoder, include_extras=True)
    return {
        one.name: (
            hints[one.name],
            Field(
                ... if one.default is one.default_factory else one.default,  # both are missing: the param is required
                description=prefix + one.metadata["description"],
                ge=one.metadata["at_least"],
            ),
        )
        for one in kind.params
    }
