"""A format of exported files: reads the program, and runs the file itself."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from paddleship.config.sections.model import Input
from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError
from paddleship.shipped.computing.files import sha256
from paddleship.system import isolate

Weights = Mapping[str, np.ndarray[Any, Any]]
_ADVICE = "correct the path, or give an absolute one: an isolated run has only what git keeps"


class Format(ABC):
    """`title`: what such a file is; `runtime`: what runs the file itself; `other_kernels`: not with Paddle's kernels."""

    suffixes: ClassVar[Sequence[str]]
    title: ClassVar[str]
    runtime: ClassVar[str]
    other_kernels: ClassVar[bool] = False

    def __init__(self, settings: ExportedFile) -> None:
        self.program = Path(settings.exported)

    @property
    def holder(self) -> Path:
        """The file that holds the weights."""
        return self.program

    @abstractmethod
    def read(self, inputs: Sequence[Input], *, timeout_s: float) -> tuple[dict[str, Any], Weights]:
        """The program as `paddleship.shipped.computing.program_layer` runs it for these inputs, and its weights. Raises ModelError."""

    @abstractmethod
    def predictor(self) -> isolate.Factory:
        """What makes, in a child process, an object whose `run` answers rows as the file does, without optimisation."""

    def others(self, root: Path) -> Sequence[Path]:  # noqa: ARG002 for formats with several files
        """Further files of the program, if they exist."""
        return ()

    def digest(self, root: Path = Path()) -> str:
        """One hash of all files; relative paths are below `root`. Raises ModelError if the program does not exist."""
        try:
            hashes = [sha256(root / self.program), *map(sha256, self.others(root))]
        except OSError as error:
            reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            raise ModelError(f"train.source.exported is {str(self.program)!r}, but it {reason}: {_ADVICE}") from None
        return hashlib.sha256("".join(hashes).encode()).hexdigest()
