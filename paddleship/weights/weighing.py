"""Compares the files of every candidate, and of the exported program, with the checkpoint; a broken file may kill no one but a child."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paddleship.config.catalogue import EAGER, OTHER_WEIGHTS, PRUNED
from paddleship.conversion import places
from paddleship.errors import BadInput, CandidateError
from paddleship.shipped.common import layers
from paddleship.shipped.common.candidate import Candidate
from paddleship.system.isolate import Revived
from paddleship.weights import comparing, onnx_files, openvino_files, paddle_files
from paddleship.weights.comparing import Original, Weighed
from paddleship.weights.held import Tensor, Tensors

EXPORTED = "exported"
_COUNTED = re.compile(r"(eager_tmp|generated_\w+|_buffers_\w+)_\d+")


@dataclass(frozen=True)
class Files:
    """Where the checkpoint, the exported program and the candidates lie."""

    checkpoint: Path
    exported: Path
    candidates: Mapping[str, Path]


def weigh(files: Files, *, timeout_s: float) -> dict[str, Weighed]:
    """The comparison of every candidate, and of the exported program under the name `exported`."""
    found = {}
    with Revived("the comparison of weights", Scales, files.checkpoint, files.exported, timeout_s=timeout_s) as scales:
        for name, folder in {EXPORTED: files.exported, **files.candidates}.items():
            try:
                found[name] = scales.call("weigh", folder)
            except BadInput as obstacle:
                found[name] = Weighed(unread=str(obstacle))
    return found


class Scales:
    """Lives in the child: holds the checkpoint, and compares what the files of one candidate after the other hold."""

    def __init__(self, checkpoint: Path, exported: Path) -> None:
        self._checkpoint = {name: tensor.values for name, tensor in _safetensors(checkpoint).items()}
        self._exported = exported
        self._originals: dict[str | None, Original] = {}

    def weigh(self, folder: Path) -> Weighed:
        """Raises CandidateError for files that cannot be read."""
        itself = folder == self._exported
        candidate = Candidate.load(folder, stage="export" if itself else "optimize")
        if candidate.runtime == EAGER:
            return comparing.compare(Original(self._checkpoint, {}, {}), _safetensors(folder))
        pruned, corrects = candidate.precision == PRUNED, (folder / "model.xml").exists()
        parts = [program.folder for program in candidate.programs] or ["."]
        found = []
        for part in parts:
            held = _read(folder / part)
            if candidate.runtime == "paddle" and candidate.precision in OTHER_WEIGHTS:
                held = _of_another_export(held)
            original = self._original(None if itself else part)
            found.append(comparing.compare(original, held, pruned=pruned, corrects_biases=corrects))
        return comparing.merge(found)

    def _original(self, part: str | None) -> Original:
        """What one of the programs is compared with; None for an exported program itself."""
        if part not in self._originals:
            program = None if part is None else paddle_files.read(self._exported / part)
            self._originals[part] = Original(self._checkpoint, places.read(self._exported), program)
        return self._originals[part]


def _read(folder: Path) -> Tensors:
    """What the program in `folder` holds, in whichever form it is."""
    for file, read in (("model.json", paddle_files.read), ("model.xml", openvino_files.read), ("model.onnx", onnx_files.read)):
        if (folder / file).exists():
            return read(folder)
    raise CandidateError(f"{folder} holds no program whose weights could be read: make it again with `dvc repro -f optimize`")


def _of_another_export(held: Tensors) -> Tensors:
    """What a program holds that was exported anew after Paddle had changed the model: names that only count tensors mean others in it."""
    return {f"{name} (another export)" if _COUNTED.fullmatch(name) else name: tensor for name, tensor in held.items()}


def _safetensors(folder: Path) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: Tensor(array) for name, array in load_file(folder / layers.WEIGHTS).items()}
    except (OSError, SafetensorError) as error:
        raise CandidateError(f"{folder / layers.WEIGHTS} cannot be read ({error})") from None
