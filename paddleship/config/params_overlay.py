"""params.yaml of a checkout, with a file laid over it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddleship.config.params import Params


def path_in(checkout: Path, argument: str | None) -> str | None:
    """The path of an overlay as every process of the checkout resolves it: relative to the checkout if the file is in it."""
    if argument is None:
        return None
    path = Path(argument).absolute()
    return os.path.relpath(path, checkout) if path.is_relative_to(checkout) else str(path)


def load(checkout: Path, overlay: str | None) -> Params:
    """params.yaml of the checkout with the file `overlay` laid over it. Raises ParamsError."""
    from paddleship.config import loading, workspace_paths  # pydantic takes a tenth of a second, which `--help` need not wait for

    above = loading.read(checkout / overlay) if overlay else {}
    merged = loading.parse(loading.merge(loading.read(checkout / "params.yaml"), above), origin=overlay or "params.yaml")
    workspace_paths.require_inside(merged, checkout)
    return merged
