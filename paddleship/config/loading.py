"""Read params.yaml, and files that are laid over it: every value is read once and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from paddleship.config import credentials, strict_yaml, validation_errors
from paddleship.config.params import Params
from paddleship.config.sections.section import Section
from paddleship.errors import ParamsError


def load(path: Path) -> Params:
    """Read and check a params file. Raises ParamsError, with all faults in one message."""
    return parse(read(path), origin=str(path))


def read(path: Path) -> dict[str, Any]:
    """The values of a params file, or of a file that is laid over it, before they are checked. Raises ParamsError."""
    if not path.exists():
        raise ParamsError(f"params file {str(path)!r} does not exist: give an existing file, or run in the folder that holds params.yaml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ParamsError(f"params file {str(path)!r} cannot be read ({error.strerror}): give a readable file") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path} is not YAML ({error}): save it as UTF-8") from None
    return read_text(text, origin=str(path))


def read_text(text: str, *, origin: str) -> dict[str, Any]:
    """The values in the text of a params file, before they are checked; error messages name `origin`. Raises ParamsError."""
    try:
        values = strict_yaml.load(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"{origin} is not YAML ({_reason(error)}): fix that line") from None
    return _sections(values, origin)


def _reason(error: yaml.YAMLError) -> str:
    """The line and what is wrong there, and where the part of the file that it is in began."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    line, began = error.problem_mark.line, error.context_mark
    inside = f", {error.context} that began in line {began.line + 1}" if began and began.line != line else ""
    return f"line {line + 1}: {error.problem}{inside}"


def parse(values: Any, *, origin: str = "params.yaml") -> Params:
    """Check values that were read before; error messages name `origin`. Raises ParamsError."""
    credentials.require_none(_sections(values, origin), origin=origin)
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        faults = [validation_errors.explain(dict(fault), Params) for fault in error.errors()]
        raise ParamsError(f"{origin}: " + "; ".join(faults)) from None


def _sections(values: Any, origin: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        kind = "nothing" if values is None else type(values).__name__
        raise ParamsError(f"{origin} must hold a mapping of sections (got {kind}): start from params.yaml of the repository")
    return values


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any], model: type[BaseModel] = Params) -> dict[str, Any]:
    """`base` with the values of `overlay`: sections merge key by key, everything else (kwargs, lists) is replaced."""
    merged = dict(model.overlay_base(base, overlay) if issubclass(model, Section) else base)
    for key, value in overlay.items():
        field = model.model_fields.get(key)
        section = field.annotation if field else None
        if isinstance(section, type) and issubclass(section, Section) and isinstance(value, Mapping):
            merged[key] = merge(merged.get(key) or {}, value, section)
        else:
            merged[key] = value
    return merged
