"""What every contender is measured against: the eager model's own answers, in float32 and float64, and as `to_static` in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from paddleship.controlflow.tracing import Spot, TracedEager
from paddleship.eager import Eager, Subject
from paddleship.errors import BadInput, CandidateError, ModelError
from paddleship.finding import Finding
from paddleship.isolate import Isolated, threads
from paddleship.measures import Array
from paddleship.params import Verify
from paddleship.preprocess import Batch
from paddleship.progress import Progress
from paddleship.proof import answering, exercise, stability
from paddleship.proof import evidence as evidences
from paddleship.proof.evidence import BY_OPERATOR, EPSILON, MEASURED_NOISE, NOISE_FLOOR, Evidence
from paddleship.proof.inputs import Case
from paddleship.runtimes import Arrays

TO_STATIC = "to_static"
Say = Callable[[str], None]
Form = Literal["float32", "float64", "by operator", "static"]

_NUDGES = 2


@dataclass(frozen=True)
class Told:
    """The evidence, what `to_static` answered (or why it did not), the cases that eager refused with its words, what is odd about
    eager, which ways the inputs took, and which inputs changed nothing."""

    evidence: Evidence
    static: list[Arrays] | str
    refused: dict[str, str]
    findings: list[Finding]
    taken: dict[Spot, set[int]]
    idle: dict[str, str]


class _DeadlyError(Exception):
    """What eager's process died of, or hung on: a case, and the words of its end."""

    def __init__(self, case: Case, words: str) -> None:
        super().__init__(words)
        self.case = case


def ask(
    subject: Subject,
    cases: Sequence[Case],
    settings: Verify,
    *,
    task: str | None,
    labels: Array | None,
    say: Say,
    probe_inputs: bool = True,
) -> Told:
    """Ask the eager model in each of its forms all cases; what its process does not survive at the edge is refused like what it raises.

    Raises ModelError when eager answers no row, or does not survive one.
    """
    deadly: dict[str, str] = {}
    while True:
        left = [case for case in cases if case.name not in deadly]
        try:
            told = _ask_all(subject, left, settings, task=task, labels=labels, say=say, probe_inputs=probe_inputs)
            return replace(told, refused=deadly | told.refused)
        except _DeadlyError as end:
            if end.case.group == "rows":
                advice = "run the model on that row alone, and mend what it reads beyond its inputs, or leave the row out"
                raise ModelError(f"the eager model does not survive real rows ({end.case.name}): {end}: {advice}") from None
            family = [case.name for case in cases if case.family and case.family == end.case.family]
            deadly |= dict.fromkeys([end.case.name, *family], str(end))
            say(f"eager does not survive {end.case.name}, so nothing is asked that: {end}")


def _ask_all(
    subject: Subject,
    cases: Sequence[Case],
    settings: Verify,
    *,
    task: str | None,
    labels: Array | None,
    say: Say,
    probe_inputs: bool,
) -> Told:
    def child() -> Isolated:
        return Isolated("eager", Originals, subject, timeout_s=settings.timeout_s, environment=threads(1))

    with child() as eager:
        eager.call("become", "float32")
        told = _ask_eager("eager", eager, cases)
        refused = {case.name: answer for case, answer in zip(cases, told, strict=True) if isinstance(answer, str)}
        kept = [case for case in cases if case.name not in refused]
        if not any(case.group == "rows" for case in kept):
            raise ModelError(next(iter(refused.values()), "there are no cases: give rows or inputs"))
        reference = [answer for answer in told if not isinstance(answer, str)]
        again = answering.ask("eager, again", eager, kept[:2])
        taken = eager.call("taken")
        idle = _idle_inputs(eager, kept, reference) if probe_inputs else {}
        evidence = _measured(eager, child, kept, reference, task=task, labels=labels, say=say)
        return Told(evidence, _static(eager, child, kept), refused, _oddities(evidence, again, settings), taken, idle)


def _idle_inputs(eager: Isolated, cases: Sequence[Case], reference: Sequence[Arrays]) -> dict[str, str]:
    """The inputs that changed nothing; none where eager does not survive other rows' values."""
    try:
        return exercise.inputs(lambda batch: eager.call("run", batch), cases, reference)
    except CandidateError:
        return {}


@contextmanager
def _form(eager: Isolated, child: Callable[[], Isolated], form: Form) -> Iterator[Isolated]:
    """The model in another form: in the process that has Paddle already, or in one of its own where it cannot be built there again."""
    try:
        eager.call("become", form)
    except BadInput:
        with child() as other:
            other.call("become", form)
            yield other
        return
    yield eager


def _measured(
    eager: Isolated,
    child: Callable[[], Isolated],
    cases: Sequence[Case],
    reference: list[Arrays],
    *,
    task: str | None,
    labels: Array | None,
    say: Say,
) -> Evidence:
    """The evidence with the best truth that this model has: in float64 as a whole, operator by operator, or its own nudged answers."""
    truth, why, _ = _truth(eager, child, cases, reference, "float64")
    if truth is not None:
        return evidences.gather(cases, reference, truth, task=task, labels=labels)
    say(f"the model does not run in float64 as a whole ({why}): computing operator by operator in float64")
    truth, also, single = _truth(eager, child, cases, reference, "by operator")
    if truth is not None:
        why += f"; {', '.join(single)} know float32 only" if single else ""
        floor = NOISE_FLOOR if single else EPSILON
        return evidences.gather(cases, reference, truth, rule=BY_OPERATOR, floor=floor, task=task, labels=labels, why=why)
    say(f"float64 is unavailable ({also}): measuring eager's own noise")
    nudged = _nudged(eager, child, cases, reference)
    return evidences.gather(cases, reference, None, nudged=nudged, task=task, labels=labels, why=f"{why}; operator by operator: {also}")


def _nudged(eager: Isolated, child: Callable[[], Isolated], cases: Sequence[Case], reference: list[Arrays]) -> list[list[Arrays]]:
    """Eager float32 again, with weights and inputs that are off by a rounding or two; its own answers where it refuses them."""
    found = []
    try:
        with _form(eager, child, "float32") as other:
            for seed in range(_NUDGES):
                other.call("nudge", seed)
                told = _ask_eager("eager, nudged", other, cases)
                found.append([own if isinstance(answer, str) else answer for own, answer in zip(reference, told, strict=True)])
    except (BadInput, _DeadlyError):
        return found
    return found


def _ask_eager(name: str, child: Isolated, cases: Sequence[Case]) -> list[Arrays | str]:
    """Its answers, or its words where it refuses. Raises _DeadlyError."""
    progress = Progress(f"{name}: answering", len(cases), "batches")
    told = []
    for case in cases:
        try:
            told.append(child.call("run", case.inputs))
            progress.advance()
        except CandidateError as error:
            if child.usable:
                raise
            raise _DeadlyError(case, str(error)) from None
    return told


def _truth(
    eager: Isolated, child: Callable[[], Isolated], cases: Sequence[Case], reference: list[Arrays], form: Form
) -> tuple[list[Arrays] | None, str, list[str]]:
    """The float64 answers, or None and the reason why there are none; and which operators computed in float32 nevertheless."""
    try:
        with _form(eager, child, form) as exact:
            told = _ask_eager(f"eager {form}", exact, cases)
            single: list[str] = exact.call("single")
    except BadInput as error:
        return None, str(error), []
    except _DeadlyError as end:
        if end.case.group != "rows":
            raise
        return None, f"{end.case.name}: {end}", []
    if why := _unlike(cases, reference, told):
        return None, why, []
    return [answer for answer in told if not isinstance(answer, str)], "", single


def _unlike(cases: Sequence[Case], reference: Sequence[Arrays], told: Sequence[Arrays | str]) -> str:
    """Why these float64 answers are none that float32 can be measured by; nothing where they are."""
    truth: list[Arrays] = []
    for case, expected, answer in zip(cases, reference, told, strict=True):
        if isinstance(answer, str):
            return f"{case.name}: {answer}"
        for name, array in expected.items():
            if name not in answer or answer[name].shape != array.shape:
                return f"{case.name}: output {name!r} has another shape in a float64 model"
            if array.dtype.kind == "f" and answer[name].dtype != "float64":
                return f"output {name!r} stays {answer[name].dtype} in a float64 model"
        truth.append(answer)
    said = evidences.nothing_finite(truth)
    return f"in float64, {said}" if said and not evidences.nothing_finite(reference) else ""


def _static(eager: Isolated, child: Callable[[], Isolated], cases: Sequence[Case]) -> list[Arrays] | str:
    """The answers of `to_static` in memory, or why there are none."""
    try:
        with _form(eager, child, "static") as static:
            told = answering.ask(TO_STATIC, static, cases)
    except BadInput as error:
        return str(error)
    return next((answer for answer in told if isinstance(answer, str)), None) or [answer for answer in told if not isinstance(answer, str)]


def _oddities(evidence: Evidence, again: Sequence[Arrays | str], settings: Verify) -> list[Finding]:
    """What makes the eager model itself hard to compare with."""
    found = []
    if evidence.rule == BY_OPERATOR:
        message = f"the model does not run in float64 as a whole ({evidence.why}), so each operator computed in float64 by itself"
        found.append(Finding("no-float64", "note", message, "no action is needed"))
    if evidence.rule == MEASURED_NOISE:
        message = f"float64 is unavailable ({evidence.why}), so errors are measured by how far eager's answers move when it is nudged"
        found.append(Finding("no-float64", "note", message, "no action is needed: it is a weaker measure, at most 0.001 of the scale"))
    places = range(len(again))
    if (
        change := stability.change(evidence, places, evidence.reference, [answer if isinstance(answer, dict) else {} for answer in again])
    ) > 1:
        message = f"the eager model answers the same question differently in evaluation mode ({change:.3g} × its own noise)"
        advice = "draw no random numbers in evaluation mode: give dropout training=self.training, and call nothing random otherwise"
        found.append(Finding("random-forward", "error", message, advice))
        return found  # random answers also change with the batch, so nothing can be said of that
    dependent = [name for name, change in stability.batch_changes(evidence, evidence.truth).items() if change > settings.noise_limit]
    if dependent:
        message = f"eager's own {', '.join(dependent)} for a row depends on the other rows of its batch or on padding"
        advice = "mask the padding, and take no statistics over the batch in evaluation mode, if that is not meant"
        found.append(Finding("batch-dependent", "warning", message, advice))
    return found


class Originals:
    """Lives in the child: the eager model in one form after the other, so that Paddle is imported once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._eager: Eager | None = None
        self._traced: TracedEager | None = None
        self._random: np.random.Generator | None = None

    def become(self, form: Form) -> None:
        self._eager = None  # one set of weights at a time
        self._random = None
        if form == "float32":
            self._traced = self._eager = TracedEager(self._subject)
        elif form == "static":
            self._eager = Eager(self._subject, static=True)
        else:
            by_operator = form == "by operator"
            self._eager = Eager(self._subject, dtype="float32" if by_operator else form, by_operator=by_operator)

    def nudge(self, seed: int) -> None:
        """Move every float32 weight, and from now on every float32 input, by up to two roundings."""
        if self._eager is None:
            return
        self._random = np.random.default_rng(seed)
        for tensor in self._eager.layer.state_dict().values():
            if (array := tensor.numpy()).dtype == np.float32:
                tensor.set_value(self._moved(array))

    def _moved(self, array: Array) -> Array:
        if self._random is None or array.dtype != np.float32:
            return array
        moved: Array = (array * (1 + EPSILON * self._random.uniform(-2, 2, array.shape))).astype(np.float32)
        return moved

    def single(self) -> list[str]:
        """The operators that know float32 only, where each computed in float64 by itself."""
        return self._eager.single if self._eager else []

    def run(self, inputs: Batch) -> Arrays | str:
        """The answer, or why there is none."""
        try:
            moved = {name: self._moved(array) for name, array in inputs.items()}
            return self._eager.run(moved) if self._eager else "nothing is loaded"
        except ModelError as refusal:
            return str(refusal)

    def taken(self) -> dict[Spot, set[int]]:
        """Which ways eager float32 went at each `if` and loop of the user's code, over all inputs so far."""
        return self._traced.taken() if self._traced else {}
