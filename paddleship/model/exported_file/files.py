"""The two files of an exported program: the program, and its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.sections.model import Input
from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError, ProcessDied
from paddleship.model.exported_file import declared, translating
from paddleship.model.exported_file.file_format import Format, Weights
from paddleship.model.exported_file.plain_predictor import PlainPredictor
from paddleship.numerics import combined_tensors
from paddleship.system import isolate


class Files(Format):
    """A program that Paddle exported, and its parameters, which need not exist if the program has none."""

    suffixes = (".json", ".pdmodel")
    title = "the program that Paddle exported, a .json (such as inference.json) or a .pdmodel"
    runtime = "Paddle Inference"

    def __init__(self, settings: ExportedFile) -> None:
        super().__init__(settings)
        self.parameters = Path(settings.parameters) if settings.parameters else self.program.with_suffix(".pdiparams")

    @property
    def holder(self) -> Path:
        return self.parameters

    def read(self, inputs: Sequence[Input], *, timeout_s: float) -> tuple[dict[str, Any], Weights]:
        table = self.table(timeout_s=timeout_s)
        declared.require(inputs, table["inputs"], self.program)
        return table, self.weights(table)

    def predictor(self) -> isolate.Factory:
        return PlainPredictor, (self.program, self.parameters if self.parameters.exists() else None)

    def others(self, root: Path) -> Sequence[Path]:
        return [root / self.parameters] if (root / self.parameters).exists() else []

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
