"""The proof: eager in float32 and float64, `to_static` in memory and every candidate answer the same cases.

Each candidate runs in a process of its own; a crash is recorded as a failed row. Besides the answers, three invariances are checked, in
units of eager's noise: a row's answer does not depend on its batch (unless eager's does), the same input gives the same answer later, and
concurrent callers get the same answers as a single caller. First the judge must refuse wrong answers, see `controls`.

`to_static` and the exported program on eager's own kernels are compared with eager itself, see `invariance_checks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from paddleship.config.sections.verify import Verify
from paddleship.controlflow.tracing import BranchKey
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds import score_form
from paddleship.errors import BadInput, OutOfTime, ProcessDied, ProcessHung
from paddleship.model.eager import SourceModel
from paddleship.numerics.differences import Array
from paddleship.proof import answer_flips, controls, exercise, finiteness, invariance, invariance_checks, parity, reference
from paddleship.proof.answer_flips import Answer
from paddleship.proof.answering import Answered, Caller, ModelUnderTest, Queue, ask
from paddleship.proof.cases.inputs import Case
from paddleship.proof.cases.searching import Search
from paddleship.proof.controls import Control
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.proof.reference import TO_STATIC, EagerAnswers, EarlierAnswers, Say
from paddleship.proof.weights import hold_to_checkpoint
from paddleship.proof.yardstick import EagerArithmetic
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate
from paddleship.weights.weight_comparison import WeightComparison

YARDSTICK = "negative_controls"  # the check of a candidate whose rule accepts wrong answers


@dataclass(frozen=True)
class Proof:
    """The result of a proof: one judgement per name, and the cases that eager rejected, with its error messages.

    `answers` are the answers of each model under test, None if it died. `taken_branches` are those that the inputs took in eager mode.
    `compared_weights` are the comparisons of files with the checkpoint, also of the exported program. `controls` are the wrong answers
    that the judge was given, `unexercised` the outputs that were empty or constant, `arithmetic` is where eager computed.
    `mapped_libraries` are those of its optional libraries that a model under test had mapped after the last case. A model under
    test for which there was no time has no answers and no judgement. If `findings` contain an error, it is about eager or the judge, and
    nothing is proven.
    """

    evidence: Evidence
    judgements: dict[str, Judgement]
    answers: dict[str, list[Arrays] | None] = field(repr=False)
    refused: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    taken_branches: dict[BranchKey, set[int]] = field(default_factory=dict, repr=False)
    controls: list[Control] = field(default_factory=list, repr=False)
    compared_weights: dict[str, WeightComparison] = field(default_factory=dict, repr=False)
    unexercised: dict[str, str] = field(default_factory=dict)
    arithmetic: EagerArithmetic | None = None
    mapped_libraries: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def sound(self) -> bool:
        """Whether nothing about eager or the judge prevents a proof."""
        return not any(finding.severity == "error" for finding in self.findings)


def prove(
    source_model: SourceModel,
    cases: Sequence[Case],
    models_under_test: Mapping[str, ModelUnderTest],
    *,
    settings: Verify,
    task: str | None = None,
    labels: Array | None = None,
    compared_weights: Mapping[str, WeightComparison] | None = None,
    say: Say = print,
    probe_inputs: bool = True,
    earlier: EarlierAnswers | None = None,
    search: Search | None = None,
    answer: Answer | None = None,
) -> Proof:
    """Ask eager, the truth, `to_static` and every model under test all cases, and judge. Raises ModelError if eager answers none.

    `compared_weights` has the comparison of each candidate's files with the checkpoint. `probe_inputs`: also look for inputs that change
    nothing. `answer` is what a client gets beside the outputs. `earlier` are answers of eager float32 on one thread, which are not asked
    again. `search`: look for further cases if outputs or branches are not exercised.
    """
    order = sorted(models_under_test.items(), key=lambda item: not item[1].exact)
    with Queue(order, timeout_s=settings.timeout_s) as queue:
        precisions = {model_under_test.precision for model_under_test in models_under_test.values()}
        eager = reference.ask(
            source_model, cases, settings, task=task, labels=labels, say=say, probe_inputs=probe_inputs, earlier=earlier, search=search
        )
        real = search is not None and search.real
        return _prove(eager, queue, precisions, compared_weights or {}, settings=settings, real=real, say=say, answer=answer)


def _prove(
    eager: EagerAnswers,
    queue: Queue,
    precisions: Collection[str],
    compared_weights: Mapping[str, WeightComparison],
    *,
    settings: Verify,
    real: bool,
    say: Say,
    answer: Answer | None,
) -> Proof:
    evidence, static = eager.evidence, eager.static
    wrong = controls.run(evidence, limits=settings, lower=any(precision != "float32" for precision in precisions))
    empty = {rule: controls.accepted(wrong, rule, settings) for rule in (controls.FLOAT32, controls.LOWER)}
    unexercised = exercise.outputs(evidence, limit=settings.noise_limit, real=real)
    idle = exercise.findings(unexercised, eager.idle, first=next(iter(evidence.reference[0])))
    findings = [*eager.findings, *empty[controls.FLOAT32], *idle, *exercise.masks(evidence), *finiteness.findings(evidence)]
    if evidence.task:
        findings += score_form.findings(task_kinds.get(evidence.task).decision, evidence.first_outputs(), "error")
    findings += answer_flips.findings(evidence, answer.settings, answer.answering) if answer else []
    sound = not any(finding.severity == "error" for finding in findings)
    judgements: dict[str, Judgement] = {}
    answers: dict[str, list[Arrays] | None] = {}
    if isinstance(static, str):
        judgements[TO_STATIC], answers[TO_STATIC] = unanswered(static), None
    else:
        judgement = parity.judge(evidence, static, limits=settings)
        judgements[TO_STATIC], answers[TO_STATIC] = invariance_checks.hold_to_eager(judgement, evidence, static, settings=settings), static
    _say_outcome(TO_STATIC, judgements[TO_STATIC], say, sound=sound)
    mapped: dict[str, list[str]] = {}
    program: list[Arrays] | None = None  # answers of the exported program, if it departs from eager
    for name, model_under_test, child in _in_time(queue):
        try:
            examined = _examine(model_under_test, child, evidence, settings, name=name)
        except OutOfTime:
            break
        judgements[name], answers[name] = judgement, answered = examined.judgement, examined.answers
        mapped |= {name: examined.mapped_libraries} if examined.mapped_libraries else {}
        if model_under_test.exact and invariance_checks.departs(judgement):
            program = answered
        elif program and answered and model_under_test.precision == "float32":
            judgements[name] = invariance_checks.hold_to_program(judgement, evidence, answered, program=program)
        if model_under_test.precision != "float32" and empty[controls.LOWER]:
            judgements[name] = _unproven_rule(judgement, empty[controls.LOWER])
        if answer and answered:
            precision = model_under_test.precision
            judgements[name] = answer_flips.hold(
                judgements[name], evidence, answered, answer.answering, limits=settings, precision=precision
            )
        judgements[name] = hold_to_checkpoint(judgements[name], compared_weights.get(name))
        _say_outcome(name, judgements[name], say, precision=model_under_test.precision, sound=sound)
    return Proof(
        evidence,
        judgements,
        answers,
        eager.refused,
        findings,
        eager.taken_branches,
        wrong,
        dict(compared_weights),
        unexercised,
        eager.arithmetic,
        mapped,
    )


def _unproven_rule(judgement: Judgement, findings: Sequence[Finding]) -> Judgement:
    """Fail a judgement by a rule that accepts wrong answers."""
    check = Check(
        name=YARDSTICK, measured=findings[0].message, limit="negative controls are refused", passed=False, advice=findings[0].advice
    )
    return replace(judgement, checks=[*judgement.checks, check], findings=[*judgement.findings, *findings])


def _in_time(queue: Queue) -> Iterator[tuple[str, ModelUnderTest, isolate.Isolated | BadInput]]:
    """The models under test that can be loaded before the deadline."""
    with suppress(OutOfTime):
        yield from queue


def unanswered(reason: str) -> Judgement:
    """The judgement on a model that did not answer."""
    return Judgement({}, [Check(name="answers", measured=reason, limit="an answer to every case", passed=False)])


@dataclass(frozen=True)
class Examined:
    """The judgement on one model under test, its answers, None if it died, and the optional libraries that it had mapped at the end."""

    judgement: Judgement
    answers: list[Arrays] | None = None
    mapped_libraries: list[str] = field(default_factory=list)


def _examine(
    model_under_test: ModelUnderTest, child: isolate.Isolated | BadInput, evidence: Evidence, settings: Verify, *, name: str
) -> Examined:
    """Ask one model under test everything, and judge."""
    if isinstance(child, BadInput):
        return Examined(unanswered(str(child)))
    answers = None
    try:
        with child:
            answered = ask(name, child, evidence.cases)
            answers = answered.answers
            precision, exact = model_under_test.precision, model_under_test.exact
            judgement = judge(child, evidence, answered, precision=precision, exact=exact, settings=settings)
            return Examined(judgement, answers, _mapped_libraries(child) if model_under_test.has_optional_libraries else [])
    except BadInput as error:
        return Examined(unanswered(str(error)), answers)


def _mapped_libraries(child: Caller) -> list[str]:
    """Those that a process has mapped after its last case; none if it dies of the question, which says nothing about its answers."""
    try:
        mapped: list[str] = child.call("mapped_libraries")
    except (ProcessDied, ProcessHung):
        return []
    return mapped


def judge(
    model_under_test: Caller,
    evidence: Evidence,
    answered: Answered,
    *,
    precision: str = "float32",
    exact: bool = False,
    settings: Verify,
) -> Judgement:
    """Judge the answers to all cases, and ask some of the cases again and with concurrent callers.

    `model_under_test` calls an AnswerWorker, in this process or in another.
    """
    answers = answered.answers
    indices = invariance.affordable(evidence, invariance.sample(evidence), answered.seconds, times=1 + settings.threads)
    again = {index: model_under_test.call("run", evidence.cases[index].inputs) for index in reversed(indices)}
    concurrent = model_under_test.call("together", [evidence.cases[index].inputs for index in indices], settings.threads)
    judgement = parity.judge(evidence, answers, limits=settings, precision=precision)
    if not judgement.metrics:
        return judgement
    expected = [answers[index] for index in indices]
    repeat = invariance.change(evidence, indices, expected, [again[index] for index in indices])
    threads = max(invariance.change(evidence, indices, expected, got) for got in concurrent)
    batch = invariance.batch_variance(evidence, answers, noise_limit=settings.noise_limit)
    changes = {"repeat_ratio": repeat, "threads_ratio": threads, "batch_ratio": batch}
    judgement = invariance_checks.add(judgement, changes, invariance_checks.limits(judgement, settings, precision=precision))
    judgement = replace(judgement, metrics={**judgement.metrics, "cases_repeated": len(indices)})
    return invariance_checks.hold_to_eager(judgement, evidence, answers, settings=settings) if exact else judgement


def _say_outcome(name: str, judgement: Judgement, say: Say, *, precision: str = "float32", sound: bool = True) -> None:
    reason = "; ".join(str(check) for check in judgement.checks if not check.passed)
    if not judgement:
        worst = f" (worst case: {judgement.worst_case})" if judgement.worst_case else ""
        say(f"{name}: not proven: {reason}{worst}")
    elif not sound:
        say(f"{name}: not proven: it agrees with eager on every case, which proves nothing here, see the findings")
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
