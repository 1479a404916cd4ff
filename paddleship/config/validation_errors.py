"""Explain the validation errors of pydantic in plain English."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel
from pydantic_core import PydanticCustomError

_WHOLE = "whole"
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "text", "list": "a list, such as [a, b]"}
_KINDS |= dict.fromkeys(("dict", "model"), "a mapping of keys to values")
_NOT_OF_KIND = re.compile(f"({'|'.join(_KINDS)})_(type|attributes_type|parsing|from_float)")  # types of pydantic's errors


def whole(message: str) -> PydanticCustomError:
    """An error about several keys; the message already has their values and the next step."""
    return PydanticCustomError(_WHOLE, "{message}", {"message": message})


def written_as(pattern: str, form: str) -> AfterValidator:
    """A check that a text matches `pattern` as a whole; `form` describes how it must be written."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise PydanticCustomError("form", "must be {form}", {"form": form})
        return text

    return AfterValidator(check)


def no_bool(value: Any, annotation: Any) -> Any:
    """The value, unless it is true or false where a number is meant, which pydantic takes for 1 or 0."""
    kinds = _alternatives(annotation)
    if isinstance(value, bool) and bool not in kinds and (number := next((kind for kind in (float, int) if kind in kinds), None)):
        raise PydanticCustomError(f"{number.__name__}_type", "a number")
    return value


def _alternatives(annotation: Any) -> set[Any]:
    """The types that a value may have, without those inside lists and mappings."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_alternatives, get_args(annotation)))
    return {annotation}


def explain(fault: dict[str, Any], schema: type[BaseModel]) -> str:
    """One error as text: path, value, reason, next step."""
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = _known_keys(fault["loc"][:-1], schema)
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}"
        return f"unknown key {path!r} ({hint})"
    if fault["type"] == "missing":
        return f"{path} is missing: add it"
    text = (f"{path}: " if path else "") + reason(fault)
    if fault["type"] == _WHOLE:
        return text
    value = fault["input"]
    return f"{text} (got {json.dumps(value) if value is None or isinstance(value, bool) else repr(value)}{_near(fault)})"


def reason(fault: dict[str, Any]) -> str:
    """What is wrong with the value, without path and value."""
    if match := _NOT_OF_KIND.fullmatch(fault["type"]):
        return f"must be {_KINDS[match[1]]}"
    text = re.sub("^(Input|String) should ", "must ", fault["msg"].removeprefix("Value error, "))
    return f"{text[:1].lower()}{text[1:]}"


def _near(fault: dict[str, Any]) -> str:
    """The allowed value that is most similar; empty if none is."""
    allowed = re.findall(r"'([^']+)'", str(fault.get("ctx", {}).get("expected", "")))
    near = difflib.get_close_matches(str(fault["input"]), allowed, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _known_keys(location: tuple[str | int, ...], model: type[BaseModel]) -> list[str]:
    """The keys of the section at `location`, which also has indexes of lists, keys of mappings and tags of unions in it.

    Of several forms of a section, the one that has a key of the tag's name is meant.
    """
    forms = [model]
    for part in location:
        if fields := [form.model_fields[str(part)] for form in forms if str(part) in form.model_fields][:1]:
            tagged = [form for form in forms if len(forms) > 1 and str(part) in form.model_fields]
            forms = tagged or list(_sections(fields[0].annotation)) or forms
    return sorted(forms[0].model_fields)


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """All sections that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections(inner)
