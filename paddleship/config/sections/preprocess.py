"""The section `preprocess`: how a raw row becomes the model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from paddleship.config import preprocess_params
from paddleship.config.sections.section import Section
from paddleship.config.validation_errors import whole
from paddleship.shipped.computing.preprocess import registry, with_further
from paddleship.shipped.computing.preprocess.text import UnicodeForm


class _Preprocess(Section):
    kind: str = Field(registry.default().name, description=preprocess_params.description())
    column: str = Field("text", description="with another kind: column that `input` is made from")
    input: str = Field("ids", description="with another kind: input of the model that is made from `column`")
    unicode_form: UnicodeForm | None = Field("NFKC", description="Unicode normal form in which texts are equal; null: none")


class Preprocess(preprocess_params.with_short_kinds(_Preprocess)):  # type: ignore[misc]
    """The kinds of the model's inputs: of each in `inputs`, or the one kind that the other keys describe."""

    inputs: dict[str, Annotated[Any, BeforeValidator(lambda value: preprocess_params.entry(value, Section))]] = Field(
        {}, description="kind, column and params of each input that is not the column of its name; {}: those below, of one input"
    )

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Kind, column and params of every input that has them, those included that another's entry names. Raises DataError."""
        return with_further(self.written)

    @property
    def written(self) -> dict[str, dict[str, Any]]:
        """Kind, column and params of every input that has an entry of its own."""
        if self.inputs:
            return {name: {**one, "column": one["column"] or name} for name, one in self.inputs.items()}
        if self.kind == registry.default().name:
            return {}
        return {self.input: {key: getattr(self, key) for key in ("kind", "column", *preprocess_params.keys(self.kind))}}

    @classmethod
    def overlay_base(cls, values: Mapping[str, Any], overlay: Mapping[str, Any]) -> Mapping[str, Any]:
        short = {*cls.model_fields} - {"inputs", "unicode_form"}
        left = short if overlay.get("inputs") else {"inputs"} if short & overlay.keys() else set()
        return {key: value for key, value in values.items() if key not in left}

    @model_validator(mode="after")
    def _one_form(self) -> Preprocess:
        preprocess_params.require_short(self.kind)
        both = [key for key, field in type(self).model_fields.items() if key not in ("inputs", "unicode_form") and self._has(key, field)]
        if self.inputs and both:
            raise whole(f"inputs has the kind of each input (got also {', '.join(both)}): write them below the input, or leave inputs out")
        return self

    def _has(self, key: str, field: Any) -> bool:
        return bool(getattr(self, key) != field.default)
