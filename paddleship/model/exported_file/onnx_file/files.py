"""An `.onnx` file, and the files beside it that hold its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddleship.config.sections.model import Input
from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError, ProcessDied
from paddleship.model.exported_file import declared
from paddleship.model.exported_file.file_format import Format, Weights
from paddleship.model.exported_file.onnx_file import proto
from paddleship.model.exported_file.onnx_file.session import PlainSession
from paddleship.model.exported_file.onnx_file.translating import Translation
from paddleship.system import isolate


class OnnxFile(Format):
    suffixes = (".onnx",)
    title = "an .onnx file"
    runtime = "ONNX Runtime"
    other_kernels = True

    def __init__(self, settings: ExportedFile) -> None:
        super().__init__(settings)
        if settings.parameters:
            raise ModelError(f"train.source.parameters is {settings.parameters!r}, but an .onnx file names its own: remove it")

    def read(self, inputs: Sequence[Input], *, timeout_s: float) -> tuple[dict[str, Any], Weights]:
        fixed = {item.name: [size if isinstance(size, int) else -1 for size in item.shape] for item in inputs}
        try:
            with isolate.Isolated("the reading of the exported file", Translation, self.program, timeout_s=timeout_s) as child:
                declared.require(inputs, child.call("inputs"), self.program)
                table, weights = child.call("read", fixed)
        except ProcessDied as died:
            raise ModelError(f"{str(self.program)!r} cannot be read ({died}): copy it again, or export it again") from None
        return table, weights

    def predictor(self) -> isolate.Factory:
        return PlainSession, (self.program,)

    def others(self, root: Path) -> Sequence[Path]:
        path = root / self.program
        return sorted(proto.require_near(proto.structure(path), path)) if path.exists() else ()
