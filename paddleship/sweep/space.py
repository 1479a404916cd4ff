"""The search space of a sweep: params by path, their values, and what a variant lays over the params."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.config.sections.section import Section
from paddleship.config.sections.sweep import Range, Sweep
from paddleship.errors import ParamsError

Point = Mapping[str, Any]
"""The values of one variant, by the path of the param."""
SHARED = ("name", "paths", "promote", "sweep", "notify", "graph_modes")
"""Sections of the params that all variants of a model share: its name and paths, and the settings of other commands."""
_LONGEST_VALUE = 40  # characters of a value in a label


def require(values: Params) -> None:
    """Check the whole space against these params: every path, every listed value, and both ends of a range. Raises ParamsError."""
    settings = values.sweep
    if not settings.space:
        raise ParamsError("sweep.space is empty: name params and their values in params.yaml or in --params FILE (docs/how-to/sweep.md)")
    base = values.model_dump(mode="json")
    for point in _samples(settings):
        written = json.dumps(dict(point), ensure_ascii=False, default=str)
        loading.parse(loading.merge(base, overlay(values, point)), origin=f"sweep.space, {written}")


def combinations(settings: Sweep) -> Iterator[dict[str, Any]]:
    """All variants of a space of lists; the last param changes first."""
    lists = [values for values in settings.space.values() if isinstance(values, list)]
    for values in itertools.product(*lists):
        yield dict(zip(settings.space, values, strict=True))


def size(settings: Sweep) -> int | None:
    """The number of variants that the space has; None if it has a range of fractions."""
    total = 1
    for values in settings.space.values():
        if isinstance(values, Range) and not (isinstance(values.low, int) and isinstance(values.high, int)):
            return None
        total *= int(values.high) - int(values.low) + 1 if isinstance(values, Range) else len(values)
    return total


def overlay(values: Params, point: Point) -> dict[str, Any]:
    """What a variant lays over the params; a mapping without a schema, such as model.kwargs, as a whole. Raises ParamsError."""
    made: dict[str, Any] = {}
    for path, value in point.items():
        *above, last = path.split(".")
        if path.partition(".")[0] in SHARED:
            raise ParamsError(f"sweep.space names {path!r}, which all variants share: name a param of a stage, such as train.epochs")
        at: Any = values
        inside = made
        for part in above:
            at = _child(at, part, path)
            inside = inside.setdefault(part, deepcopy(at) if isinstance(at, dict) else {})
        _child(at, last, path)
        inside[last] = value
    return made


def label(point: Point) -> str:
    """The values of a variant, for people: `epochs=4, learning_rate=0.01`."""
    names = [path.rpartition(".")[2] for path in point]
    named = {path: path if names.count(name) > 1 else name for path, name in zip(point, names, strict=True)}
    return ", ".join(f"{named[path]}={_written(value)}" for path, value in point.items())


def key(point: Point) -> str:
    """Equal for equal values."""
    return json.dumps(dict(point), sort_keys=True, default=str)


def _samples(settings: Sweep) -> Iterator[dict[str, Any]]:
    """Enough variants to see every value: of a grid those that will run, otherwise each value alone."""
    for path, values in settings.space.items():
        for value in (values.low, values.high) if isinstance(values, Range) else values:
            yield {path: value}
    if settings.method == "grid":
        yield from itertools.islice(combinations(settings), settings.trials)


def _child(at: Any, part: str, path: str) -> Any:
    """What is at one part of a path. Raises ParamsError."""
    known: Sequence[str] = list(type(at).model_fields) if isinstance(at, Section) else list(at) if isinstance(at, dict) else []
    if part not in known:
        near = difflib.get_close_matches(part, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}" if known else "there is nothing below it"
        add = ": add it there with its usual value" if isinstance(at, dict) else ""
        raise ParamsError(f"sweep.space names {path!r}, but the params have no {part!r} there ({hint}){add}")
    return getattr(at, part) if isinstance(at, Section) else at[part]


def _written(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
