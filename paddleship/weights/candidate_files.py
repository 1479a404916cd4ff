"""Compare the files of every candidate, and of the exported program, with the checkpoint, in a child process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paddleship.conversion import tensor_names
from paddleship.errors import BadInput, RegistrationError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.references import resolve
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import PRUNED
from paddleship.system.isolate import Revived
from paddleship.weights import checkpoint_files, paddle_files, weight_comparison
from paddleship.weights.candidate_tensors import Tensors
from paddleship.weights.weight_comparison import CheckpointTensors, WeightComparison

EXPORTED = "exported"
_COUNTED = re.compile(r"(eager_tmp|generated_\w+|_buffers_\w+)_\d+")


@dataclass(frozen=True)
class WeightFiles:
    """The folders of the checkpoint, the exported program and the candidates."""

    checkpoint: Path
    exported: Path
    candidates: Mapping[str, Path]


def compare(files: WeightFiles, *, timeout_s: float) -> dict[str, WeightComparison]:
    """The comparison of every candidate, and of the exported program under the name `exported`."""
    comparisons = {}
    with Revived("the comparison of weights", WeightsWorker, files.checkpoint, files.exported, timeout_s=timeout_s) as worker:
        for name, folder in {EXPORTED: files.exported, **files.candidates}.items():
            try:
                comparisons[name] = worker.call("compare", folder)
            except BadInput as obstacle:
                comparisons[name] = WeightComparison(unread=str(obstacle))
    return comparisons


class WeightsWorker:
    """The object in the child process: holds the checkpoint and compares one candidate after the other."""

    def __init__(self, checkpoint: Path, exported: Path) -> None:
        self._checkpoint = {name: tensor.values for name, tensor in checkpoint_files.read(checkpoint).items()}
        self._exported = exported
        self._of_parts: dict[str | None, CheckpointTensors] = {}

    def compare(self, folder: Path) -> WeightComparison:
        """Raises CandidateError if files cannot be read."""
        itself = folder == self._exported
        candidate = Candidate.load(folder, stage="export" if itself else "optimize")
        kind, runtime = registry.kind_of(candidate), registry.get(candidate.runtime).registration
        reader = runtime.weights_reader(kind)
        if not reader:
            return WeightComparison(compared_at_all=False)
        read = resolve(reader, key="a registration's weights", error=RegistrationError)
        if runtime.source == "eager":
            return weight_comparison.compare(CheckpointTensors(self._checkpoint, {}, {}), read(folder))
        pruned = candidate.precision == PRUNED
        parts = [program.folder for program in candidate.programs] or ["."]
        comparisons = []
        for part in parts:
            held = read(folder / part)
            if kind.change:
                held = _of_another_export(held)
            original = self._original(None if itself else part)
            comparisons.append(weight_comparison.compare(original, held, pruned=pruned, corrects_biases=kind.corrects_biases))
        return weight_comparison.merge(comparisons)

    def _original(self, part: str | None) -> CheckpointTensors:
        """The original to compare a program with; None for an exported program itself."""
        if part not in self._of_parts:
            program = None if part is None else paddle_files.read(self._exported / part)
            self._of_parts[part] = CheckpointTensors(self._checkpoint, tensor_names.read(self._exported), program)
        return self._of_parts[part]


def _of_another_export(held: Tensors) -> Tensors:
    """Tensors of a program that was exported again after Paddle changed the model; numbered names refer to other tensors there."""
    return {f"{name} (another export)" if _COUNTED.fullmatch(name) else name: tensor for name, tensor in held.items()}
