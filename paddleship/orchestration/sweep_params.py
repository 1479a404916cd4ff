"""The params of a sweep, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.execution import workspace
from paddleship.sweep import space


@dataclass(frozen=True)
class SweepParams:
    """`overlay` is laid over params.yaml of `commit`, which makes `values`."""

    overlay: dict[str, Any]
    values: Params
    commit: str


def read(checkout: Path, *, params_file: str | None, settings: Mapping[str, Any], commit: str | None) -> SweepParams:
    """Lay the file and then the settings over params.yaml, and check the space against the result. Raises ParamsError and BadInput."""
    overlay = loading.read(checkout / params_file) if params_file else {}
    if settings:
        overlay = loading.merge(overlay, {"sweep": dict(settings)})
    known = workspace.commit(checkout, commit or "HEAD")
    origin = " with ".join(filter(None, (params_file or "params.yaml", "the settings of this sweep" if settings else "")))
    values = workspace.overlaid(checkout, overlay, origin=origin, commit=known)
    space.require(values)
    return SweepParams(overlay, values, known)
