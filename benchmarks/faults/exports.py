"""Make exports of one model, unchanged or with other weights or code, and load them in each runtime."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.faults.faults import Weights
from benchmarks.faults.models import FLOAT32_ONLY, INPUTS
from paddleship.config.sections.model import Model
from paddleship.conversion import exporting, to_onnx
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof import evidence as evidences
from paddleship.proof.cases import id_cases, inputs
from paddleship.proof.cases.inputs import Case
from paddleship.proof.eager_variants import ReferenceWorker
from paddleship.proof.evidence import Evidence
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Arrays
from paddleship.weights.candidate_files import WeightsWorker
from paddleship.weights.weight_comparison import WeightComparison

PROGRAM = "paddle"  # the exported program on eager's own kernels; the others are made from it
_STALE = 10_000


class Exports:
    """Exports of the model `name`, made in the folder `work`."""

    def __init__(self, name: str, work: Path) -> None:
        self._name, self._work = name, work
        self._specs = tuple(item.spec() for item in INPUTS[name])

    def evidence(self, seed: int) -> tuple[Evidence, SourceModel]:
        source_model = SourceModel(
            Model(factory="benchmarks.faults.models:build", kwargs={"name": self._name}, inputs=INPUTS[self._name]), self._work / f"{seed}"
        )
        self._save(source_model, seed)
        cases = inputs.generate(self._specs, seed=seed, max_batch=32)
        cases += id_cases.walk(self._specs, [case.inputs for case in cases], max_batch=32)
        eager = Eager(source_model)
        reference = [eager.run(case.inputs) for case in cases]
        if self._name in FLOAT32_ONLY:
            return evidences.gather(cases, reference, None, nudged=self._nudged(source_model, cases), why="float32 only"), source_model
        bare = evidences.gather(cases, reference, None)
        return evidences.gather(cases, reference, self.truth(source_model, bare), task="classification"), source_model

    def _nudged(self, source_model: SourceModel, cases: list[Case]) -> list[list[Arrays]]:
        """The nudged answers, as `verify` computes them for a model without float64."""
        eager = ReferenceWorker(source_model)
        found = []
        for seed in range(2):
            eager.become("float32")
            eager.nudge(seed)
            found.append([eager.run(case.inputs) for case in cases])
        return found

    def _save(self, source_model: SourceModel, seed: int) -> None:
        import paddle

        paddle.set_default_dtype("float32")
        paddle.seed(seed)
        building.save(building.build(source_model.model), source_model.checkpoint, {})

    def recoded(self, source_model: SourceModel, change: str) -> SourceModel:
        """The model with a fault in its code."""
        return replace(source_model, model=source_model.model.model_copy(update={"kwargs": {"name": self._name, "change": change}}))

    def reweighted(self, source_model: SourceModel, change: Callable[[Weights, Weights], Weights]) -> SourceModel:
        """The model with changed weights; `change` gets its own weights, and those of another training."""
        import paddle

        paddle.set_default_dtype("float32")
        paddle.seed(_STALE)
        stale, layer = building.build(source_model.model), building.build(source_model.model)
        building.restore(layer, source_model.checkpoint)
        weights, other = ({name: tensor.numpy() for name, tensor in one.state_dict().items()} for one in (layer, stale))
        layer.set_state_dict(change(weights, other))
        folder = self._work / "changed"
        building.save(layer, folder, {})
        return replace(source_model, checkpoint=folder)

    def truth(self, source_model: SourceModel, evidence: Evidence) -> list[Arrays]:
        """The model's answers in float64."""
        exact = Eager(source_model, dtype="float64")
        return [exact.run(case.inputs) for case in evidence.cases]

    def export(self, source_model: SourceModel, evidence: Evidence) -> Path:
        import paddle

        paddle.set_default_dtype("float32")
        folder = self._work / "exported"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        saved = exporting.save_program(source_model, folder, self._specs)
        probes = [case.inputs for case in evidence.cases]
        outputs = exporting.describe_outputs(self._specs, probes, evidence.reference)
        Candidate(
            name="paddle",
            model=self._name,
            runtime="paddle",
            precision="float32",
            threads=1,
            inputs=self._specs,
            outputs=outputs,
            sources=saved.sources,
            preprocess={"kind": "tensors"},
            weights_sha256=saved.weights,
            task="classification",
            options={"onednn": False},
        ).save(folder)
        return folder

    def load(self, exported: Path) -> dict[str, Any]:
        """Load the export in every runtime that accepts it, the program itself first."""
        return {kind: runtimes.load(folder) for kind, folder in self._folders(exported).items()}

    def compare_weights(self, source_model: SourceModel) -> dict[str, WeightComparison]:
        """Compare the weights in the files of the last export with the checkpoint."""
        folders = {PROGRAM: "exported", "paddle-onednn": "onednn", "onnxruntime": "onnx"}
        worker = WeightsWorker(source_model.checkpoint, self._work / "exported")
        return {kind: worker.compare(self._work / folder) for kind, folder in folders.items()}

    def _folders(self, exported: Path) -> dict[str, Path]:
        made, base = {PROGRAM: exported}, Candidate.load(exported)
        onednn, onnx = (exported.parent / kind for kind in ("onednn", "onnx"))
        for folder in (onednn, onnx):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(exported, onednn)
        replace(base, name="paddle-onednn", options={"onednn": True}).save(onednn)
        made["paddle-onednn"] = onednn
        onnx.mkdir()
        to_onnx.convert(exported, onnx)
        replace(base, name="onnxruntime", runtime="onnxruntime", options={}).save(onnx)
        made["onnxruntime"] = onnx
        return made
