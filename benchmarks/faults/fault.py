"""A fault at the ends of the pipeline or between its stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One fault: the change of a checkout or of its image, the stage that must refuse it, and what its message must name.

    `files` maps a file of the image to the change of its text, `lines` are further lines of its Dockerfile, and the receipt describes the
    changed image as if `package` had made it; without them, `damage` changes the checkout. `before` are stages that run after the damage
    and must pass.
    """

    name: str
    stage: str
    expects: tuple[str, ...]
    files: tuple[tuple[str, Callable[[str], str]], ...] = ()
    lines: tuple[str, ...] = ()
    damage: Callable[[Path], None] | None = None
    before: tuple[str, ...] = ()
