"""The two files of an exported program: the program, and its parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError, ProcessDied
from paddleship.model.exported_file import translating
from paddleship.numerics import combined_tensors
from paddleship.shipped.computing.files import sha256
from paddleship.system import isolate

_SUFFIXES = (".json", ".pdmodel")
_ADVICE = "correct the path, or give an absolute one: an isolated run has only what git keeps"


@dataclass(frozen=True)
class Files:
    program: Path
    parameters: Path  # need not exist if the program has no parameters

    @classmethod
    def of(cls, settings: ExportedFile) -> Files:
        """The files. Raises ModelError for a name that is not that of a program."""
        program = Path(settings.exported)
        if program.suffix not in _SUFFIXES:
            raise ModelError(
                f"train.source.exported is {settings.exported!r}: name the program that Paddle exported, a .json (such as "
                "inference.json) or a .pdmodel"
            )
        return cls(program, Path(settings.parameters) if settings.parameters else program.with_suffix(".pdiparams"))

    def digest(self, root: Path = Path()) -> str:
        """One hash of both files; relative paths are below `root`. Raises ModelError if the program does not exist."""
        try:
            hashes = [sha256(root / self.program)]
            hashes += [sha256(root / self.parameters)] if (root / self.parameters).exists() else []
        except OSError as error:
            reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            raise ModelError(f"train.source.exported is {str(self.program)!r}, but it {reason}: {_ADVICE}") from None
        return hashlib.sha256("".join(hashes).encode()).hexdigest()

    def table(self, *, timeout_s: float) -> dict[str, Any]:
        """The program as `paddleship.shipped.computing.program_layer` runs it. Raises ModelError."""
        self._require_json()
        try:
            read: dict[str, Any] = isolate.run("the reading of the exported program", translating.read, self.program, timeout_s=timeout_s)
        except ProcessDied as died:
            raise ModelError(
                f"{str(self.program)!r} is no program that this Paddle reads ({died}): copy it again, or export it again"
            ) from None
        return read

    def weights(self, table: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of the program's parameters. Raises ModelError if they are missing, or those of another program."""
        expected = {item["name"]: item for item in table["parameters"] if item["saved"]}
        if not expected:
            return {}
        try:
            content = self.parameters.read_bytes()
            found = dict(combined_tensors.arrays(content, {name: item["shape"] for name, item in expected.items()}))
        except OSError as error:
            reason = "do not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            raise ModelError(
                f"the parameters of {str(self.program)!r}, {str(self.parameters)!r}, {reason}: put the file there, or name it in "
                "train.source.parameters"
            ) from None
        except ValueError as odd:
            raise self._others(odd) from None
        if wrong := next((name for name, array in found.items() if array.dtype.name != expected[name]["dtype"]), None):
            raise self._others(f"holds {wrong!r} as {found[wrong].dtype}, expected {expected[wrong]['dtype']}")
        return found

    def _require_json(self) -> None:
        """Raise ModelError for a .json that is cut off, or no program."""
        if self.program.suffix != ".json":
            return
        try:
            kind = json.loads(self.program.read_text(encoding="utf-8"))["base_code"]["magic"]
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            raise ModelError(f"{str(self.program)!r} is no JSON, or it is incomplete ({reason}): copy it again") from None
        except (KeyError, TypeError):
            kind = None
        if kind != "pir":
            raise ModelError(f"{str(self.program)!r} is JSON, but no program that Paddle exported: give the file of paddle.jit.save")

    def _others(self, odd: object) -> ModelError:
        return ModelError(f"{str(self.parameters)!r} {odd}: give the parameters that were exported with {str(self.program)!r}")
