"""Lives in a child process: makes honest and faulty exports of one model, and asks the gate and the usual check about each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship import evidence as evidences
from paddleship import exporting, inputs, model, proof, runtimes, stability
from paddleship.answering import Answering, Contender
from paddleship.candidate import Candidate
from paddleship.converting import to_onnx
from paddleship.eager import Eager, Subject
from paddleship.evidence import Evidence
from paddleship.params import Model, Verify
from paddleship.runtimes import Arrays
from paddleship.runtimes.turns import Turns
from tests.faults.faults import FAULTS, Fault, NoTurns
from tests.faults.models import INPUTS

SETTINGS = Verify()
RANDOM_INPUT = "batch of 2"  # what the usual checks are given
_STALE = 10_000


@dataclass(frozen=True)
class Outcome:
    """What became of one export: whether the gate refused it and why, and how much it changed in units of eager's noise.

    `pair` holds eager's and the export's answer to one random input, for the peers.
    """

    name: str
    model: str
    runtime: str
    refused: bool
    why: str
    change: float
    noise_ratio: float
    typical_ratio: float
    pair: tuple[Arrays, Arrays] = field(repr=False)


class Near:
    """An Answering in this very process, called like one in another."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._answering, method)(*arguments)


class Forge:
    """Exports of one model, each from weights of its own seed."""

    def __init__(self, name: str, work: Path) -> None:
        self._name, self._work = name, work
        self._specs = tuple(item.spec() for item in INPUTS[name])

    def honest(self, seed: int) -> list[Outcome]:
        """A clean export in each runtime."""
        evidence, subject = self._evidence(seed)
        exported = self._export(subject, evidence)
        return [self._ask("honest", kind, evidence, lambda runtime=runtime: runtime) for kind, runtime in self._load(exported).items()]

    def faulty(self, seed: int) -> list[Outcome]:
        """Every fault that can be put into this model: into both runtimes where it changes the export, else around one."""
        evidence, subject = self._evidence(seed)
        clean = self._load(self._export(subject, evidence))
        clean_answers = {kind: [runtime.run(case.inputs) for case in evidence.cases] for kind, runtime in clean.items()}
        outcomes = []
        for fault in FAULTS:
            if self._name not in fault.models:
                continue
            made = dict([*clean.items()][-1:]) if fault.wrap else self._load(self._export(self._broken(subject, fault), evidence))
            for kind, runtime in made.items():
                factory = (lambda runtime=runtime, fault=fault: fault.wrap(runtime)) if fault.wrap else (lambda runtime=runtime: runtime)
                outcomes.append(self._ask(fault.name, kind, evidence, factory, clean_answers[kind], crowd=fault.crowd))
        return outcomes

    def _evidence(self, seed: int) -> tuple[Evidence, Subject]:
        subject = Subject(
            Model(factory="tests.faults.models:build", kwargs={"name": self._name}, inputs=INPUTS[self._name]), self._work / f"{seed}"
        )
        self._save(subject, seed)
        cases = inputs.generate(self._specs, seed=seed, max_batch=32)
        eager = Eager(subject)
        reference = [eager.run(case.inputs) for case in cases]
        exact = Eager(subject, dtype="float64")
        truth = [exact.run(case.inputs) for case in cases]
        return evidences.gather(cases, reference, truth, task="classification"), subject

    def _save(self, subject: Subject, seed: int) -> None:
        import paddle

        paddle.set_default_dtype("float32")
        paddle.seed(seed)
        model.save(model.build(subject.model), subject.checkpoint, {})

    def _broken(self, subject: Subject, fault: Fault) -> Subject:
        """The subject that is exported by mistake."""
        if fault.code:
            return replace(subject, model=subject.model.model_copy(update={"kwargs": {"name": self._name, "change": fault.code}}))
        import paddle

        paddle.set_default_dtype("float32")
        paddle.seed(_STALE)
        stale = model.build(subject.model)
        layer = model.build(subject.model)
        model.restore(layer, subject.checkpoint)
        weights, other = ({name: tensor.numpy() for name, tensor in one.state_dict().items()} for one in (layer, stale))
        layer.set_state_dict(fault.weights(weights, other))
        folder = self._work / "broken"
        model.save(layer, folder, {})
        return replace(subject, checkpoint=folder)

    def _export(self, subject: Subject, evidence: Evidence) -> Path:
        import paddle

        paddle.set_default_dtype("float32")
        folder = self._work / "exported"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        weights, sources = exporting.save_program(subject, folder, self._specs)
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
            sources=sources,
            preprocess={"kind": "tensors"},
            weights_sha256=weights,
            task="classification",
            options={"onednn": False},
        ).save(folder)
        return folder

    def _load(self, exported: Path) -> dict[str, Any]:
        onnx = exported.parent / "onnx"
        shutil.rmtree(onnx, ignore_errors=True)
        loaded = {"paddle": runtimes.load(exported)}
        if self._name == "Branching":  # paddle2onnx aborts the process on a data-dependent branch
            return loaded
        onnx.mkdir()
        to_onnx(exported, onnx)
        replace(Candidate.load(exported), name="onnxruntime", runtime="onnxruntime", options={}).save(onnx)
        return loaded | {"onnxruntime": runtimes.load(onnx)}

    def _ask(
        self,
        name: str,
        kind: str,
        evidence: Evidence,
        runtime: Callable[[], Any],
        clean: list[Arrays] | None = None,
        *,
        crowd: bool = False,
    ) -> Outcome:
        told: list[Arrays] = []
        contender = Contender(runtime, (), share=NoTurns if crowd else Turns)
        judgement = proof.question(Near(Answering(contender)), evidence, told, settings=SETTINGS)
        ways = [judgement.metrics.get(key, 0.0) for key in ("repeat_ratio", "threads_ratio")]
        change = max([stability.change(evidence, range(len(told)), clean, told), *ways]) if clean else 0.0
        place = next(place for place, case in enumerate(evidence.cases) if case.name == RANDOM_INPUT)
        return Outcome(
            name,
            self._name,
            kind,
            not judgement,
            "; ".join(check.name for check in judgement.checks if not check.passed),
            change,
            judgement.metrics.get("noise_ratio", float("inf")),
            judgement.metrics.get("typical_ratio", float("inf")),
            (evidence.reference[place], told[place]),
        )


def allclose_refuses(pair: tuple[Arrays, Arrays]) -> bool:
    """What `numpy.allclose` at 1e-5 says of one random input."""
    eager, answer = pair
    return list(eager) != list(answer) or not all(
        array.shape == answer[name].shape and np.allclose(answer[name], array, rtol=1e-5, atol=1e-5) for name, array in eager.items()
    )
