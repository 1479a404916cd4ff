"""The object in the child process: makes honest and faulty exports of one model, and judges each with the gate and with usual checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults import small
from benchmarks.faults.exports import PROGRAM, Exports
from benchmarks.faults.faults import FAULTS, Fault, NoInferenceThread
from benchmarks.faults.models import FLOAT32_ONLY
from benchmarks.faults.small import SMALL, Small
from paddleship.config.sections.verify import Verify
from paddleship.model.eager import SourceModel
from paddleship.proof import answering, invariance, invariance_checks, proving
from paddleship.proof.answering import AnswerWorker, ModelUnderTest
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.proof.weights import CHECK as WEIGHTS
from paddleship.proof.weights import hold_to_checkpoint
from paddleship.shipped.computing.runtimes import inference_thread
from paddleship.shipped.computing.spec import Arrays
from paddleship.weights.weight_comparison import WeightComparison

SETTINGS = Verify()
RANDOM_INPUT = "batch of 2"  # the input of the usual checks
HONEST = "honest"
Answers = dict[str, list[Arrays]]


@dataclass(frozen=True)
class Outcome:
    """The result for one export: whether the gate refused it, why, and how much it changed in units of eager's noise.

    `answers_refused`: its answers alone were enough to refuse it, without its weights. `pair` holds eager's and the export's answer to one
    random input, for the peers.
    """

    name: str
    model: str
    runtime: str
    refused: bool
    answers_refused: bool
    why: str
    change: float
    noise_ratio: float
    typical_ratio: float
    invariance_ratio: float
    pair: tuple[Arrays, Arrays] = field(repr=False)


class InProcessWorker:
    """An AnswerWorker in this process, with the interface of one in another process."""

    def __init__(self, answering: AnswerWorker) -> None:
        self._answering = answering

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._answering, method)(*arguments)


class Forge:
    """Exports of one model, each from weights with a seed of its own."""

    def __init__(self, name: str, work: Path) -> None:
        self._name, self._exports = name, Exports(name, work)

    def evidence(self, seed: int) -> tuple[Evidence, SourceModel]:
        """The unchanged model, and its answers."""
        return self._exports.evidence(seed)

    def honest(self, seed: int) -> list[Outcome]:
        """An honest export in each runtime."""
        evidence, source_model = self._exports.evidence(seed)
        made = self._made(source_model, evidence)
        return list(self._ask(HONEST, evidence, made, compared_weights=self._exports.compare_weights(source_model)))

    def faulty(self, seed: int, elsewhere: Collection[str] = (), sizes: Sequence[float] = small.SIZES) -> list[Outcome]:
        """Every fault that fits this model: in each runtime if it changes the export, otherwise around one runtime.

        Faults in `elsewhere` are left to other models; `sizes` are those of the small faults.
        """
        evidence, source_model = self._exports.evidence(seed)
        runtimes = self._made(source_model, evidence)
        clean = {kind: [runtime.run(case.inputs) for case in evidence.cases] for kind, runtime in runtimes.items()}
        outcomes: list[Outcome] = []
        for fault in FAULTS:
            if self._name in fault.models and fault.name not in elsewhere:
                last = next(reversed(runtimes))
                made = {last: fault.wrap(runtimes[last])} if fault.wrap else self._made(self._broken(source_model, fault), evidence)
                compared_weights = {} if fault.wrap else self._exports.compare_weights(source_model)
                outcomes += self._ask(fault.name, evidence, made, clean, compared_weights=compared_weights, concurrent=fault.concurrent)
        for kind in () if self._name in FLOAT32_ONLY else SMALL:  # without a truth, faults of a few roundings cannot be found
            for size in () if kind.name in elsewhere else sizes:
                made = self._made(self._slightly_broken(source_model, evidence, kind, size), evidence)
                outcomes += self._ask(kind.name, evidence, made, clean, compared_weights=self._exports.compare_weights(source_model))
        return outcomes

    def _made(self, source_model: SourceModel, evidence: Evidence) -> dict[str, Any]:
        return self._exports.load(self._exports.export(source_model, evidence))

    def _broken(self, source_model: SourceModel, fault: Fault) -> SourceModel:
        if fault.code:
            return self._exports.recoded(source_model, fault.code)
        if fault.weights is None:
            raise ValueError(f"{fault.name!r} changes nothing: give it weights, code or wrap")
        return self._exports.reweighted(source_model, fault.weights)

    def _slightly_broken(self, source_model: SourceModel, evidence: Evidence, kind: Small, size: float) -> SourceModel:
        def broken(dose: float) -> SourceModel:
            return self._exports.reweighted(source_model, lambda weights, _: kind.change(weights, dose))

        def moved(dose: float) -> float:
            answers = self._exports.truth(broken(dose), evidence)
            return invariance.change(evidence, range(len(answers)), evidence.truth, answers)

        return broken(small.dose(kind, size, moved))

    def _ask(
        self,
        name: str,
        evidence: Evidence,
        made: Mapping[str, Any],
        clean: Answers | None = None,
        *,
        compared_weights: Mapping[str, WeightComparison],
        concurrent: bool = False,
    ) -> Iterator[Outcome]:
        """The result of each runtime, the program first; candidates of a program that departs are compared with it, as in `verify`.

        `compared_weights` is the comparison of the files with the checkpoint, if they are the files that were loaded.
        """
        program: list[Arrays] | None = None
        for kind, runtime in made.items():
            judgement, answers = _question(evidence, runtime, exact=kind == PROGRAM, concurrent=concurrent)
            if invariance_checks.departs(judgement):
                program = answers
            elif program:
                judgement = invariance_checks.hold_to_program(judgement, evidence, answers, program=program)
            judgement = hold_to_checkpoint(judgement, compared_weights.get(kind))
            yield self._outcome(name, kind, evidence, judgement, answers, clean[kind] if clean else None)

    def _outcome(
        self, name: str, kind: str, evidence: Evidence, judgement: Judgement, answers: list[Arrays], clean: list[Arrays] | None
    ) -> Outcome:
        ways = [judgement.metrics.get(key, 0.0) for key in ("repeat_ratio", "threads_ratio")]
        place = next(place for place, case in enumerate(evidence.cases) if case.name == RANDOM_INPUT)
        return Outcome(
            name,
            self._name,
            kind,
            not judgement,
            any(not check.passed for check in judgement.checks if check.name != WEIGHTS),
            "; ".join(check.name for check in judgement.checks if not check.passed),
            max([invariance.change(evidence, range(len(answers)), clean, answers), *ways]) if clean else 0.0,
            judgement.metrics.get("noise_ratio", float("inf")),
            judgement.metrics.get("typical_ratio", float("inf")),
            max(judgement.metrics.get(key, 0.0) for key in ("repeat_ratio", "threads_ratio", "departure_ratio", "batch_ratio")),
            (evidence.reference[place], answers[place]),
        )


def _question(evidence: Evidence, runtime: Any, *, exact: bool, concurrent: bool) -> tuple[Judgement, list[Arrays]]:
    """The gate's judgement of one runtime, and its answers; in this process, to save time."""
    model_under_test = ModelUnderTest(lambda: runtime, (), share=NoInferenceThread if concurrent else inference_thread)
    worker = InProcessWorker(AnswerWorker(model_under_test))
    answered = answering.ask("", worker, evidence.cases)
    return proving.judge(worker, evidence, answered, exact=exact, settings=SETTINGS), answered.answers


def allclose_refuses(pair: tuple[Arrays, Arrays]) -> bool:
    """Whether `numpy.allclose` at 1e-5 refuses the answer to one random input."""
    eager, answer = pair
    return list(eager) != list(answer) or not all(
        array.shape == answer[name].shape and np.allclose(answer[name], array, rtol=1e-5, atol=1e-5) for name, array in eager.items()
    )
