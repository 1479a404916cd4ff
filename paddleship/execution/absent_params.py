"""Params that dvc.yaml reads and params.yaml has not, as a file of an earlier version: the lines to add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from paddleship.config import loading
from paddleship.errors import BadInput, ParamsError

_IN_TEXT = re.compile(r"\$\{(\w+(?:\.\w+)+)\}")
_ABSENT = object()


def require_none(root: Path) -> None:
    """Raise BadInput that names each with its default. Files that cannot be read are for others to refuse."""
    with suppress(ParamsError, OSError, UnicodeDecodeError, yaml.YAMLError):
        values = loading.read(root / "params.yaml")
        defaults = loading.parse(values).model_dump(mode="json")
        absent = {key: _at(defaults, key) for key in _keys(root / "dvc.yaml") if _at(values, key) is _ABSENT}
        if lines := [f"`{key}` ({_text(value)})" for key, value in absent.items() if value is not _ABSENT]:
            raise BadInput(f"params.yaml has no {', '.join(lines)}, which dvc.yaml reads: add it there; the default is in parentheses")


def _keys(path: Path) -> Iterator[str]:
    """The params that stages depend on, and those in their texts, as `paths.host`; some more than once."""
    text = path.read_text(encoding="utf-8")
    yield from _IN_TEXT.findall(text)
    for stage in (yaml.safe_load(text) or {}).get("stages", {}).values():
        yield from (key for key in stage.get("params", []) if isinstance(key, str))


def _at(values: Any, key: str) -> Any:
    """The value at a path of keys; _ABSENT without one."""
    return reduce(lambda value, part: value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT, key.split("."), values)


def _text(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
