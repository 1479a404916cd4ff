"""What all sections of params.yaml share: the base class, and the types of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from paddleship.config.validation_errors import no_bool, whole, written_as

Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Reference = Annotated[
    str, written_as(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "module:function, such as network:build"), Field(description="module:function")
]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        return no_bool(value, cls.model_fields[str(info.field_name)].annotation)

    @classmethod
    def overlay_base(cls, values: Mapping[str, Any], overlay: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG003 for sections of two forms
        """The values of a section that an overlay is laid over."""
        return values


def by_form(word: str, forms: Mapping[str, type[Section]]) -> Callable[[Any], str | None]:
    """What tells which form the value of a param is meant to have: its word, or the section whose key it has; None if neither."""

    def form(value: Any) -> str | None:
        if isinstance(value, Mapping):
            return next((key for key in forms if key in value), None)
        return word if value == word else next((key for key, section in forms.items() if isinstance(value, section)), None)

    return form


def require_once(names: Sequence[str], key: str) -> None:
    """Raise an error that pydantic reports unless all names differ."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise whole(f"{key} must have different names (got {twice[0]!r} {names.count(twice[0])} times): rename or remove one")
