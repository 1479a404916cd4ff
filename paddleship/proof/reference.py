"""The answers that models under test are compared with: eager in float32 and float64, and `to_static` in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from paddleship.config.sections.verify import Verify
from paddleship.controlflow.tracing import BranchKey
from paddleship.errors import BadInput, CandidateError, ModelError, ProcessDied
from paddleship.model.eager import SourceModel
from paddleship.numerics.differences import Array
from paddleship.proof import answering, exercise, invariance, yardstick
from paddleship.proof import evidence as evidences
from paddleship.proof.cases import searching
from paddleship.proof.cases.inputs import Case
from paddleship.proof.cases.searching import FoundCase, Search
from paddleship.proof.crashes import CrashError, Crashes, ask_each
from paddleship.proof.eager_variants import EagerForm, ReferenceWorker
from paddleship.proof.evidence import BY_OPERATOR, EPSILON, MEASURED_NOISE, NOISE_FLOOR, Evidence
from paddleship.proof.yardstick import EagerArithmetic
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.spec import Arrays
from paddleship.system.isolate import Isolated, threads

TO_STATIC = "to_static"
Say = Callable[[str], None]

_NUDGES = 2


@dataclass(frozen=True)
class EagerAnswers:
    """The answers of the eager model: evidence, answers of `to_static` (or its error), rejected cases with their errors, findings about
    eager, the outcomes of branches, inputs that changed nothing, and where eager computed.
    """

    evidence: Evidence
    static: list[Arrays] | str
    refused: dict[str, str]
    findings: list[Finding]
    taken_branches: dict[BranchKey, set[int]]
    idle: dict[str, str]
    arithmetic: EagerArithmetic


@dataclass(frozen=True)
class EarlierAnswers:
    """Earlier answers of eager float32, by case name, and the outcomes of branches."""

    answers: Mapping[str, Arrays]
    taken_branches: Mapping[BranchKey, set[int]]


@dataclass(frozen=True)
class _Float32:
    """The answers of eager float32, by case index; second answers to two cases; outcomes of branches; inputs that changed
    nothing; and cases found by a search, whose indices follow the others.
    """

    answers: dict[int, Arrays | str]
    again: dict[int, Arrays | str]
    taken_branches: dict[BranchKey, set[int]]
    idle: dict[str, str]
    found_cases: list[FoundCase]


def ask(
    source_model: SourceModel,
    cases: Sequence[Case],
    settings: Verify,
    *,
    task: str | None,
    labels: Array | None,
    say: Say,
    probe_inputs: bool = True,
    earlier: EarlierAnswers | None = None,
    search: Search | None = None,
) -> EagerAnswers:
    """Ask the eager model all cases in each of its forms; an edge case on which it crashes is skipped like one that it rejects.

    After a crash, only the remaining cases are asked. Cases in `earlier` are not asked in float32 again, except two. `search` looks for
    further cases if something is not exercised. Raises ModelError if eager answers no row, or crashes on one.
    """
    crashes = Crashes(cases, say)

    def child() -> Isolated:
        environment = threads(1) | yardstick.NO_TF32
        return Isolated("eager", ReferenceWorker, source_model, timeout_s=settings.timeout_s, environment=environment)

    with child() as eager:
        arithmetic = eager.call("arithmetic")
        single = _float32(eager, child, cases, crashes, probe_inputs=probe_inputs, earlier=earlier, search=search, say=say)
        cases = [*cases, *(one.case for one in single.found_cases)]
        crashes.follow(cases)
        refused = {cases[number].name: answer for number, answer in single.answers.items() if isinstance(answer, str)}
        truth, rule, why, floor = _best_truth(eager, child, cases, single.answers, crashes, say=say)
        usable = _usable_answers(cases, single.answers, crashes)
        left, reference = [cases[number] for number in usable], list(usable.values())
        if truth is None:
            nudged = _nudged(eager, child, left, reference)
            evidence = evidences.gather(left, reference, None, nudged=nudged, task=task, labels=labels, why=why)
        else:
            exact = [truth[number] for number in usable]
            evidence = evidences.gather(left, reference, exact, rule=rule, floor=floor, task=task, labels=labels, why=why)
        again = {index: single.again[number] for index, number in enumerate(usable) if number in single.again}
        findings = [
            *_eager_findings(evidence, again, settings),
            *(searching.findings(single.found_cases) if search and search.real else []),
            *yardstick.findings(evidence, arithmetic),
        ]
        static = _static(eager, child, left)
        return EagerAnswers(evidence, static, crashes.reasons | refused, findings, single.taken_branches, single.idle, arithmetic)


def _usable_answers(cases: Sequence[Case], answers: Mapping[int, Arrays | str], crashes: Crashes) -> dict[int, Arrays]:
    """The answers to the cases that eager accepts and survives, in order. Raises ModelError if no row is among them."""
    usable = {
        number: answer
        for number, answer in sorted(answers.items())
        if not isinstance(answer, str) and cases[number].name not in crashes.reasons
    }
    if not any(cases[number].group == "rows" for number in usable):
        messages = (answer for answer in answers.values() if isinstance(answer, str))
        raise ModelError(next(messages, "there are no cases: give rows or inputs"))
    return usable


def _float32(
    eager: Isolated,
    child: Callable[[], Isolated],
    cases: Sequence[Case],
    crashes: Crashes,
    *,
    probe_inputs: bool,
    earlier: EarlierAnswers | None,
    search: Search | None,
    say: Say,
) -> _Float32:
    """Ask eager float32, in a new process after each crash; the outcomes are read after each case."""
    answers: dict[int, Arrays | str] = {}
    taken: dict[BranchKey, set[int]] = {}
    if earlier is not None:
        answers |= {number: earlier.answers[case.name] for number, case in enumerate(cases) if case.name in earlier.answers}
        taken |= {key: set(outcomes) for key, outcomes in earlier.taken_branches.items()}
    while True:
        with _form(eager, child, "float32") as process:
            try:
                for number, answer in ask_each("eager", process, cases, crashes.left(answers)):
                    answers[number] = answer
                    taken = _joined([taken, process.call("taken_branches")])
                usable = _usable_answers(cases, answers, crashes)
                again = dict(ask_each("eager, again", process, cases, [*usable][1::-1]))  # in reverse, so that no draw is repeated
            except CrashError as end:
                crashes.add(end, answers)
                continue
            asked, reference = [cases[number] for number in usable], list(usable.values())
            idle = _idle_inputs(process, asked, reference) if probe_inputs else {}
            found_cases = searching.find(search, process, asked, reference, taken, say) if search else []
            answers |= {len(cases) + number: one.answer for number, one in enumerate(found_cases)}
            return _Float32(answers, again, _joined([taken, *(one.taken_branches for one in found_cases)]), idle, found_cases)


def _joined(taken: Iterable[Mapping[BranchKey, set[int]]]) -> dict[BranchKey, set[int]]:
    """All outcomes of each branch."""
    joined: dict[BranchKey, set[int]] = {}
    for outcomes in taken:
        for key, some in outcomes.items():
            joined.setdefault(key, set()).update(some)
    return joined


def _idle_inputs(eager: Isolated, cases: Sequence[Case], reference: Sequence[Arrays]) -> dict[str, str]:
    """The inputs that changed nothing; empty if eager crashes on other rows' values."""
    try:
        return exercise.inputs(lambda batch: eager.call("run", batch), cases, reference)
    except CandidateError:
        return {}


@contextmanager
def _form(eager: Isolated, child: Callable[[], Isolated], form: EagerForm) -> Iterator[Isolated]:
    """The model in another form, in the same process if possible, otherwise in a new one."""
    try:
        eager.call("become", form)
    except BadInput:
        with child() as other:
            other.call("become", form)
            yield other
        return
    yield eager


def _best_truth(
    eager: Isolated,
    child: Callable[[], Isolated],
    cases: Sequence[Case],
    answers: Mapping[int, Arrays | str],
    crashes: Crashes,
    *,
    say: Say,
) -> tuple[dict[int, Arrays] | None, str, str, float]:
    """The best truth of this model by case index, with rule, reason and least relative error: float64, operator by operator, or None."""
    truth, why, _ = _truth(eager, child, cases, answers, crashes, "float64")
    if truth is not None:
        return truth, evidences.FLOAT64_TRUTH, "", EPSILON
    say("the model does not run in float64 as a whole: computing operator by operator in float64")
    truth, also, single = _truth(eager, child, cases, answers, crashes, "by operator")
    if truth is not None:
        why += f"; {', '.join(single)} know float32 only" if single else ""
        return truth, BY_OPERATOR, why, NOISE_FLOOR if single else EPSILON
    say(f"float64 is unavailable ({also}): measuring eager's own noise")
    return None, MEASURED_NOISE, f"{why}; operator by operator: {also}", NOISE_FLOOR


def _nudged(eager: Isolated, child: Callable[[], Isolated], cases: Sequence[Case], reference: list[Arrays]) -> list[list[Arrays]]:
    """The answers of eager float32 with nudged weights and inputs; the original answer if a case is rejected."""
    nudged = []
    try:
        with _form(eager, child, "float32") as other:
            for seed in range(_NUDGES):
                other.call("nudge", seed)
                answers = dict(ask_each("eager, nudged", other, cases, range(len(cases))))
                nudged.append([own if isinstance(answer := answers[number], str) else answer for number, own in enumerate(reference)])
    except (BadInput, CrashError):
        return nudged
    return nudged


def _truth(
    eager: Isolated,
    child: Callable[[], Isolated],
    cases: Sequence[Case],
    answers: Mapping[int, Arrays | str],
    crashes: Crashes,
    form: EagerForm,
) -> tuple[dict[int, Arrays] | None, str, list[str]]:
    """The float64 answers, or None with the reason; and the operators that computed in float32 nevertheless."""
    exact_answers: dict[int, Arrays | str] = {}
    single: set[str] = set()
    refused = [number for number, answer in answers.items() if isinstance(answer, str)]
    while True:
        try:
            with _form(eager, child, form) as exact:
                for number, answer in ask_each(f"eager {form}", exact, cases, crashes.left([*exact_answers, *refused])):
                    exact_answers[number] = answer
                single |= set(exact.call("single"))
                break
        except BadInput as error:
            return None, str(error), []
        except CrashError as end:
            if end.case.group == "rows":
                return None, f"{end.case.name}: {end}", []
            crashes.add(end, exact_answers)
    usable = _usable_answers(cases, answers, crashes)
    if why := _why_unusable(cases, usable, exact_answers):
        return None, why, []
    return {number: answer for number, answer in exact_answers.items() if not isinstance(answer, str)}, "", sorted(single)


def _why_unusable(cases: Sequence[Case], reference: Mapping[int, Arrays], answers: Mapping[int, Arrays | str]) -> str:
    """Why these float64 answers cannot be the truth; empty if they can."""
    truth: list[Arrays] = []
    for number, expected in reference.items():
        case, answer = cases[number], answers[number]
        if isinstance(answer, str):
            return f"{case.name}: {answer}"
        for name, array in expected.items():
            if name not in answer or answer[name].shape != array.shape:
                return f"{case.name}: output {name!r} has another shape in a float64 model"
            if array.dtype.kind == "f" and answer[name].dtype != "float64":
                return f"output {name!r} stays {answer[name].dtype} in a float64 model"
        truth.append(answer)
    message = evidences.nothing_finite(truth)
    return f"in float64, {message}" if message and not evidences.nothing_finite(list(reference.values())) else ""


def _static(eager: Isolated, child: Callable[[], Isolated], cases: Sequence[Case]) -> list[Arrays] | str:
    """The answers of `to_static` in memory, or the error message.

    Where the process dies, which has run other forms before, a new one is asked: Paddle crashes now and then in a process of several forms.
    """
    try:
        try:
            with _form(eager, child, "static") as static:
                answers = answering.ask(TO_STATIC, static, cases).answers
        except ProcessDied:
            with child() as static:
                static.call("become", "static")
                answers = answering.ask(TO_STATIC, static, cases).answers
    except BadInput as error:
        return str(error)
    return next((answer for answer in answers if isinstance(answer, str)), None) or [
        answer for answer in answers if not isinstance(answer, str)
    ]


def _eager_findings(evidence: Evidence, again: Mapping[int, Arrays | str], settings: Verify) -> list[Finding]:
    """Findings about the eager model itself; `again` has its second answers to some cases."""
    findings = []
    if evidence.rule == BY_OPERATOR:
        message = f"the model does not run in float64 as a whole ({evidence.why}), so each operator computed in float64 by itself"
        findings.append(Finding("no-float64", "note", message, "no action is needed"))
    if evidence.rule == MEASURED_NOISE:
        message = f"float64 is unavailable ({evidence.why}), so errors are measured by how far eager's answers move when it is nudged"
        findings.append(
            Finding("no-float64", "note", message, "no action is needed, but this is a weaker check: noise of at most 0.001 of the scale")
        )
    first, later = [evidence.reference[number] for number in again], [one if isinstance(one, dict) else {} for one in again.values()]
    if (change := invariance.change(evidence, [*again], first, later)) > 1:
        message = f"the eager model gives different answers to the same input in evaluation mode ({change:.3g} × its own noise)"
        advice = (
            "draw no random numbers in evaluation mode: pass training=self.training to dropout, and remove other random calls from forward"
        )
        findings.append(Finding("random-forward", "error", message, advice))
        return findings  # random answers also change with the batch, so nothing is known about batches
    dependent = [name for name, change in invariance.batch_changes(evidence, evidence.truth).items() if change > settings.noise_limit]
    if dependent:
        message = f"eager's own {', '.join(dependent)} for a row depends on the other rows of its batch or on padding"
        advice = "if this is not intended, mask the padding and use no batch statistics in evaluation mode"
        findings.append(Finding("batch-dependent", "warning", message, advice))
    return findings
