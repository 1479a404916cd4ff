"""The proof: eager in float32 and float64, `to_static` in memory and every candidate answer the same cases.

Each candidate lives in a process of its own, whose death is its row. Besides its answers themselves, three
things are proven of it, in the same unit of eager's own noise: a row's answer does not depend on its batch
(where eager's does not), the same question gives the same answer later, and callers on many threads get what one
caller gets.

`to_static` and the exported program on eager's own kernels are held to eager itself, see `drift`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from paddleship import isolate
from paddleship.controlflow.tracing import Spot
from paddleship.eager import Subject
from paddleship.errors import BadInput, CandidateError, ModelError
from paddleship.finding import Finding
from paddleship.measures import Array
from paddleship.params import Verify
from paddleship.progress import Progress
from paddleship.proof import drift, parity, stability
from paddleship.proof import evidence as evidences
from paddleship.proof.answering import Caller, Contender, Originals, Queue, ask
from paddleship.proof.evidence import Evidence
from paddleship.proof.inputs import Case
from paddleship.proof.parity import Judgement
from paddleship.runtimes import Arrays
from paddleship.verdict import Check

TO_STATIC = "to_static"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Proof:
    """What is known after all were asked: one judgement per name, and the cases that eager itself refused, with its words.

    `answers` holds what each contender said to every case, None where it died; `taken` which ways the inputs took in eager mode.
    """

    evidence: Evidence
    judgements: dict[str, Judgement]
    answers: dict[str, list[Arrays] | None] = field(repr=False)
    refused: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    taken: dict[Spot, set[int]] = field(default_factory=dict, repr=False)


def prove(
    subject: Subject,
    cases: Sequence[Case],
    contenders: Mapping[str, Contender],
    *,
    settings: Verify,
    task: str | None = None,
    labels: Array | None = None,
    say: Say = print,
) -> Proof:
    """Ask eager, the truth, `to_static` and every contender all cases, and judge. Raises ModelError when eager answers none."""
    order = sorted(contenders.items(), key=lambda item: not item[1].exact)
    with Queue(order, timeout_s=settings.timeout_s) as queue:
        return _prove(subject, cases, queue, settings=settings, task=task, labels=labels, say=say)


def _prove(
    subject: Subject, cases: Sequence[Case], queue: Queue, *, settings: Verify, task: str | None, labels: Array | None, say: Say
) -> Proof:
    evidence, static, refused, findings, taken = _survived(subject, cases, settings, task=task, labels=labels, say=say)
    judgements: dict[str, Judgement] = {}
    answers: dict[str, list[Arrays] | None] = {}
    if isinstance(static, str):
        judgements[TO_STATIC], answers[TO_STATIC] = unanswered(static), None
    else:
        judgement = parity.judge(evidence, static, limits=settings)
        judgements[TO_STATIC], answers[TO_STATIC] = drift.hold_to_eager(judgement, evidence, static, settings=settings), static
    _tell(TO_STATIC, judgements[TO_STATIC], say)
    program: list[Arrays] | None = None  # what the exported program answers, where it departs from eager
    for name, contender, child in queue:
        judgements[name], answers[name] = judgement, told = _examine(name, contender, child, evidence, settings)
        if contender.exact and drift.departs(judgement):
            program = told
        elif program and told and contender.precision == "float32":
            judgements[name] = drift.hold_to_program(judgement, evidence, told, program=program)
        _tell(name, judgements[name], say, precision=contender.precision)
    return Proof(evidence, judgements, answers, refused, findings, taken)


def unanswered(reason: str) -> Judgement:
    """The judgement on something that did not answer."""
    return Judgement({}, [Check(name="answers", measured=reason, limit="an answer to every case", passed=False)])


_Originals = tuple[Evidence, list[Arrays] | str, dict[str, str], list[Finding], dict[Spot, set[int]]]


class _Deadly(Exception):
    """What eager's process died of, or hung on: a case, and the words of its end."""

    def __init__(self, case: Case, words: str) -> None:
        super().__init__(words)
        self.case = case


def _survived(subject: Subject, cases: Sequence[Case], settings: Verify, *, task: str | None, labels: Array | None, say: Say) -> _Originals:
    """The same of the cases that eager survives; one at the edge that it does not is refused, as if it had raised an error."""
    deadly: dict[str, str] = {}
    while True:
        left = [case for case in cases if case.name not in deadly]
        try:
            evidence, static, refused, findings, taken = _originals(subject, left, settings, task=task, labels=labels, say=say)
            return evidence, static, deadly | refused, findings, taken
        except _Deadly as end:
            if end.case.group == "rows":
                advice = "run the model on that row alone, and mend what it reads beyond its inputs, or leave the row out"
                raise ModelError(f"the eager model does not survive real rows ({end.case.name}): {end}: {advice}") from None
            deadly[end.case.name] = str(end)
            say(f"eager does not survive {end.case.name}, so nothing is asked that: {end}")


def _ask_eager(name: str, child: isolate.Isolated, cases: Sequence[Case]) -> list[Arrays | str]:
    """Its answers, or its words where it refuses. Raises _Deadly."""
    progress = Progress(f"{name}: answering", len(cases), "batches")
    told = []
    for case in cases:
        try:
            told.append(child.call("run", case.inputs))
            progress.advance()
        except CandidateError as error:
            if child.usable:
                raise
            raise _Deadly(case, str(error)) from None
    return told


def _originals(
    subject: Subject,
    cases: Sequence[Case],
    settings: Verify,
    *,
    task: str | None,
    labels: Array | None,
    say: Say,
) -> _Originals:
    """The evidence, the answers of `to_static` (or why there are none), what eager refused, what is odd about it, and the ways it took."""
    with isolate.Isolated("eager", Originals, subject, timeout_s=settings.timeout_s, environment=isolate.threads(1)) as child:
        child.call("become", "float32", False)
        told = _ask_eager("eager", child, cases)
        refused = {case.name: answer for case, answer in zip(cases, told, strict=True) if isinstance(answer, str)}
        kept = [case for case in cases if case.name not in refused]
        if not any(case.group == "rows" for case in kept):
            raise ModelError(next(iter(refused.values()), "there are no cases: give rows or inputs"))
        reference = [answer for answer in told if not isinstance(answer, str)]
        again = ask("eager, again", child, kept[:2])
        taken = child.call("taken")
        truth, why = _truth(child, kept, reference)
        if truth is None:
            say(f"float64 is not to be had ({why}): measuring eager's own noise instead")
        evidence = evidences.gather(kept, reference, truth, task=task, labels=labels, why=why)
        findings = _oddities(evidence, again, settings)
        static = _static(child, kept)
    return evidence, static, refused, findings, taken


def _truth(child: isolate.Isolated, cases: Sequence[Case], reference: list[Arrays]) -> tuple[list[Arrays] | None, str]:
    """The float64 answers, or None and the reason why they cannot be had."""
    try:
        child.call("become", "float64", False)
    except BadInput as error:
        return None, str(error)
    truth: list[Arrays] = []
    for case, expected, answer in zip(cases, reference, _ask_eager("eager float64", child, cases), strict=True):
        if isinstance(answer, str):
            return None, f"{case.name}: {answer}"
        for name, array in expected.items():
            if name not in answer or answer[name].shape != array.shape:
                return None, f"{case.name}: output {name!r} has another shape in a float64 model"
            if array.dtype.kind == "f" and answer[name].dtype != "float64":
                return None, f"output {name!r} stays {answer[name].dtype} in a float64 model"
        truth.append(answer)
    if (said := evidences.nothing_finite(truth)) and not evidences.nothing_finite(reference):
        return None, f"in float64, {said}"
    return truth, ""


def _static(child: isolate.Isolated, cases: Sequence[Case]) -> list[Arrays] | str:
    """The answers of `to_static` in memory, or why there are none."""
    try:
        child.call("become", "float32", True)
        told = ask(TO_STATIC, child, cases)
    except BadInput as error:
        return str(error)
    return next((answer for answer in told if isinstance(answer, str)), None) or [answer for answer in told if not isinstance(answer, str)]


def _oddities(evidence: Evidence, again: Sequence[Arrays | str], settings: Verify) -> list[Finding]:
    """What makes the eager model itself hard to compare with."""
    found = []
    places = range(len(again))
    if (
        change := stability.change(evidence, places, evidence.reference, [answer if isinstance(answer, dict) else {} for answer in again])
    ) > 1:
        message = f"the eager model answers the same question differently in evaluation mode ({change:.3g} × its own noise)"
        advice = "draw no random numbers in evaluation mode: give dropout training=self.training, and call nothing random otherwise"
        found.append(Finding("random-forward", "error", message, advice))
    dependent = [name for name, change in stability.batch_changes(evidence, evidence.truth).items() if change > settings.noise_limit]
    if dependent:
        message = f"eager's own {', '.join(dependent)} for a row depends on the other rows of its batch or on padding"
        advice = "mask the padding, and take no statistics over the batch in evaluation mode, if that is not meant"
        found.append(Finding("batch-dependent", "warning", message, advice))
    return found


def _examine(
    name: str, contender: Contender, child: isolate.Isolated | BadInput, evidence: Evidence, settings: Verify
) -> tuple[Judgement, list[Arrays] | None]:
    """Ask one contender everything, and judge."""
    told: list[Arrays] = []
    if isinstance(child, BadInput):
        return unanswered(str(child)), None
    try:
        with child:
            precision, exact = contender.precision, contender.exact
            return question(child, evidence, told, name=name, precision=precision, exact=exact, settings=settings), told
    except BadInput as error:
        return unanswered(str(error)), told if len(told) == len(evidence.cases) else None


def question(
    contender: Caller,
    evidence: Evidence,
    told: list[Arrays],
    *,
    name: str = "",
    precision: str = "float32",
    exact: bool = False,
    settings: Verify,
) -> Judgement:
    """Ask a contender (an Answering, wherever it lives) all cases, some again and by many threads at once; its answers go to `told`."""
    told += ask(name, contender, evidence.cases)
    places = stability.sample(evidence)
    again = {place: contender.call("run", evidence.cases[place].inputs) for place in reversed(places)}
    crowd = contender.call("together", [evidence.cases[place].inputs for place in places], settings.threads)
    judgement = parity.judge(evidence, told, limits=settings, precision=precision)
    if not judgement.metrics:
        return judgement
    expected = [told[place] for place in places]
    repeat = stability.change(evidence, places, expected, [again[place] for place in places])
    threads = max(stability.change(evidence, places, expected, got) for got in crowd)
    batch = stability.batch_variance(evidence, told, noise_limit=settings.noise_limit)
    changes = {"repeat_ratio": repeat, "threads_ratio": threads, "batch_ratio": batch}
    judgement = drift.add(judgement, changes, drift.limits(judgement, settings, precision=precision))
    return drift.hold_to_eager(judgement, evidence, told, settings=settings) if exact else judgement


def _tell(name: str, judgement: Judgement, say: Say, *, precision: str = "float32") -> None:
    reason = "; ".join(str(check) for check in judgement.checks if not check.passed)
    if not judgement:
        say(f"{name}: not proven: {reason}")
    elif precision == "float32":
        say(f"{name}: proven, noise ratio {judgement.metrics['noise_ratio']:.2f}")
    else:
        say(f"{name}: proven by {_decided(judgement.metrics, precision)}")


def _decided(metrics: Mapping[str, float], precision: str) -> str:
    if "flip_rate" in metrics:
        return f"its decisions in {precision}, of which {metrics['flip_rate']:.2%} differ from eager's"
    drop = metrics["metric_drop"]
    change = f"{abs(drop):.2g} {'below' if drop > 0 else 'above'}" if drop else "the same as"
    return f"its score in {precision}, {metrics['metric']:.4g}, which is {change} eager's"
