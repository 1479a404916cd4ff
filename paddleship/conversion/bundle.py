"""The eager model as a candidate: a copy of its Python code, its weights, and the call of its factory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddleship.config.sections.code import Code
from paddleship.data import carried_code
from paddleship.errors import CandidateError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing import layers, program_layer
from paddleship.shipped.computing.candidate import CODE, Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.preprocess import Batch


@dataclass(frozen=True)
class Packer:
    """Writes a source model into a folder from which it can be built without the user's checkout."""

    source_model: SourceModel

    def __call__(self, _source: Path, target: Path, _batches: Sequence[Batch]) -> None:
        """Copy weights, and code or the exported program. Raises CandidateError."""
        shutil.copyfile(self.source_model.checkpoint / building.WEIGHTS, target / layers.WEIGHTS)
        if self.source_model.model.factory is None:
            shutil.copyfile(self.source_model.checkpoint / program_layer.FILE, target / program_layer.FILE)
            return
        copy_code(self.source_model.code, target)

    def describe(self, candidate: Candidate) -> Candidate:
        """The candidate's description: eager takes every size, so there is one program, and it names its outputs itself."""
        settings = self.source_model.model
        if not _is_json(settings.kwargs):
            raise CandidateError(
                f"model.kwargs {settings.kwargs} cannot be kept as JSON: use strings, numbers, lists and mappings with string keys"
            )
        now = sha256(self.source_model.checkpoint / building.WEIGHTS)
        if now != candidate.weights_sha256:
            raise CandidateError(
                f"the checkpoint ({now[:12]}) is not the one that the exported program was made from ({candidate.weights_sha256[:12]}): "
                "run `dvc repro export optimize`"
            )
        made_by = {"factory": settings.factory, "kwargs": settings.kwargs} if settings.factory else {"program": program_layer.FILE}
        options = {**candidate.options, **made_by, "absent": settings.absent, "seed": self.source_model.seed}
        return replace(candidate, options=options, sources={}, programs=())


def copy_code(code: Code | None, target: Path) -> None:
    """Copy the Python files that code.watch names into the folder of a candidate. Raises CandidateError."""
    if code is None:
        raise CandidateError("the folder of the model's code is unknown here")
    for file, relative_path in carried_code.sources(code).items():
        (target / CODE / relative_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / CODE / relative_path)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
