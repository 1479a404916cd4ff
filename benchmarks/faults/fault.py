"""A fault at the ends of the pipeline or between its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One fault: the change of a checkout or of its image, the stage that must refuse it, and what its message must name.

    `files` maps a file of the image to the change of its text, as if another version of this library had built it, or `undeclared`: with
    nothing else changed. `lines` are further lines of its Dockerfile, which the checkout's has not. The receipt describes the changed image
    as if `package` had made it. `damage` changes the checkout before the stages `before`, which must pass, and before the
    image is changed. Where the stage may pass, `named` returns the texts, by place, of which each must contain all of `expects`.
    """

    name: str
    stage: str
    expects: tuple[str, ...]
    files: tuple[tuple[str, Callable[[str], str]], ...] = ()
    lines: tuple[str, ...] = ()
    undeclared: bool = False
    damage: Callable[[Path], None] | None = None
    before: tuple[str, ...] = ()
    named: Callable[[Path], Mapping[str, str]] | None = None


@dataclass(frozen=True)
class Found:
    """The result for one fault or honest run: whether it was noticed, for the right cause, and the message or finding."""

    name: str
    noticed: bool
    right: bool
    text: str
    honest: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {'refused or named' if self.noticed else 'passed without a word'}"
