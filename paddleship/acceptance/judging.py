"""Compare a server's answers with eager's: scores, labels, answers to concurrent callers, and refusals of bad requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from paddleship.acceptance import wrong_answers
from paddleship.acceptance.observing import Observed
from paddleship.acceptance.transport import Outputs
from paddleship.config.sections.verify import Verify
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.numerics import differences
from paddleship.proof import answer_flips, parity
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.answers import loading as answer_kinds
from paddleship.shipped.computing.answers.registration import Answering
from paddleship.shipped.computing.spec import Arrays
from paddleship.shipped.computing.task_kinds.registration import Positions

_LABEL = "label"
_ADDED = (_LABEL, answer_kinds.NAME)


@dataclass(frozen=True)
class ServedCandidate:
    """The precision of the shipped candidate, and if it returns labels, the declared class names and the task that decides them.

    `positions` are those of each row by its number, if the task decides each of them. `answering` makes the answers of params.answer.
    """

    precision: str
    classes: tuple[str, ...] = ()
    task: str = ""
    positions: Sequence[Positions] = ()
    answering: Answering | None = None


def checks(
    observed: Observed, evidence: Evidence, served: ServedCandidate, settings: Verify
) -> tuple[list[Check], parity.Judgement | None]:
    """All checks, and the judgement on the answers of the single caller; None if some cases were not answered.

    Its findings name the worst answer of the single caller, and of concurrent callers, if they are wrong.
    """
    made = [
        _none("unanswered_batches", observed.faults, advice="the server failed: "),
        _none("failed_requests", [*observed.load.failures, *observed.concurrent_load.failures], advice="under load: "),
        _none("hostile_requests", observed.hostile, advice="the server must refuse bad requests as the client's errors and keep running: "),
        _proven_batches(observed, evidence),
    ]
    if observed.faults:
        return made, None
    places = len(evidence.cases)
    sent = {id(evidence.cases[place]) for place in observed.asked}
    evidence = evidence.only(lambda case: id(case) in sent)
    answer_sets = [observed.answers, *_concurrent_sets(observed)]
    scored = [[_scores(one, evidence) for one in answers] for answers in answer_sets]
    judgements = [
        _explained(parity.judge(evidence, answers, limits=settings, precision=served.precision), evidence, answers, callers=callers)
        for answers, callers in zip(scored, ["one caller", *["concurrent callers"] * len(scored)], strict=False)
    ]
    left_out = len(observed.asked) < places
    made += [_at_its_value(check, judgements[0]) if left_out else check for check in judgements[0].checks]
    concurrent = next((judgement for judgement in judgements[1:] if not judgement), None)
    failures = Verdict(checks=concurrent.checks).failures if concurrent is not None else []
    made += [check.model_copy(update={"name": f"concurrent_{check.name}"}) for check in failures]
    if not failures:
        made.append(
            Check(
                name="concurrent_batches",
                measured=len(observed.concurrent_answers),
                limit="1 or more",
                passed=bool(observed.concurrent_answers),
            )
        )
    if served.classes and _LABEL not in evidence.reference[0]:
        wrong = [fault for answers in answer_sets for fault in label_faults(answers, evidence, served, settings)]
        made.append(_none("labels", wrong, advice="the label is not the class of eager's highest score: "))
    if served.answering is not None:
        wrong = [fault for given in answer_sets for fault in answer_faults(given, evidence, served, served.answering, settings)]
        made.append(_none("served_answers", wrong, advice="the answer is not what params.answer makes of the outputs: "))
    found = [*judgements[0].findings, *(concurrent.findings if concurrent is not None else [])]
    return made, replace(judgements[0], findings=found)


def other_transports(others: Sequence[Observed], evidence: Evidence, served: ServedCandidate, settings: Verify) -> Check:
    """Whether the answers over every other transport pass the same checks."""
    faults = list[str]()
    for observed in others:
        made, _ = checks(observed, evidence, served, settings)
        faults += [f"{observed.transport}: {failure}" for failure in Verdict(checks=made).failures]
    return _none("other_transports", faults, advice="the checks failed over another transport than HTTP: ")


def _explained(judgement: parity.Judgement, evidence: Evidence, answers: Sequence[Arrays], *, callers: str) -> parity.Judgement:
    """A failed judgement with the worst answer as its finding and as the advice of its checks: the candidate itself was proven."""
    if judgement:
        return judgement
    found = wrong_answers.find(evidence, answers, judgement, callers=callers)
    checks = [check if check.passed else check.model_copy(update={"advice": found.message}) for check in judgement.checks]
    return replace(judgement, checks=checks, findings=[found])


def _at_its_value(check: Check, judgement: parity.Judgement) -> Check:
    """A check on the end of an interval, which verify judged over all rows, changed to the value measured over fewer rows."""
    name = check.name.removesuffix("_high")
    if name == check.name or name not in judgement.metrics or not isinstance(check.limit, float | int):
        return check
    return Check.at_most(name, judgement.metrics[name], check.limit, advice=check.advice)


def label_faults(answers: Sequence[Outputs], evidence: Evidence, served: ServedCandidate, settings: Verify) -> list[str]:
    """Rows whose label is not the declared name of eager's decision.

    If eager's decision is a tie within its noise, or precision is lower, the label must name the decision of the scores beside it.
    """
    kind = task_kinds.get(served.task)
    first = next(iter(evidence.reference[0]))
    tie = _tie(evidence, first, served, settings)
    decided = served.answering.decided if served.answering is not None else np.asarray
    faults = []
    for case, reference, answer in zip(evidence.cases, evidence.reference, answers, strict=True):
        if _LABEL not in answer:
            faults.append(f"{case.name}: no label")
            continue
        rows = zip(decided(reference[first]), decided(answer[first]), answer[_LABEL].ravel(), strict=True)
        for row, (eager, scores, label) in enumerate(rows):
            positions = served.positions[case.raw[row]] if kind.per_position else ()
            if fault := _misnamed(kind, eager, scores, str(label), served.classes, tie, positions):
                faults.append(f"{case.name}, row {row}: {fault}")
    return faults


def _tie(evidence: Evidence, output: str, served: ServedCandidate, settings: Verify) -> float:
    """How far two decisions of one output may be apart within the noise that eager and the candidate have; any for a lower precision."""
    return 2 * settings.noise_limit * evidence.noise[ROWS][output].largest if served.precision == "float32" else np.inf


def answer_faults(
    served_outputs: Sequence[Outputs], evidence: Evidence, served: ServedCandidate, answering: Answering, settings: Verify
) -> list[str]:
    """Rows whose answer is not that of the outputs beside it, or not eager's although the outputs differ by more than its noise."""
    right = [answering.rows(reference) for reference in evidence.reference]
    numbers, faults = answer_flips.measured(chain.from_iterable(right)), list[str]()
    for case, reference, eagers, outputs in zip(evidence.cases, evidence.reference, right, served_outputs, strict=True):
        if answer_kinds.NAME not in outputs:
            faults.append(f"{case.name}: no answer")
            continue
        beside = _scores(outputs, evidence)
        ties = all(_distance(beside[name], reference[name]) <= _tie(evidence, name, served, settings) for name in reference)
        for row, (text, own, eager) in enumerate(zip(outputs[answer_kinds.NAME].ravel(), answering.rows(beside), eagers, strict=True)):
            decided = ties or answer_flips.decided(own, numbers) == answer_flips.decided(eager, numbers)
            if not (decided and answer_flips.same(json.loads(str(text)), own)):
                faults.append(f"{case.name}, row {row}: {str(text)[:200]} instead of {json.dumps(eager)[:200]}")
    return faults


def _distance(one: Any, other: Any) -> float:
    return float(differences.elementwise_distance(one, other).max(initial=0))


def _misnamed(kind: TaskKind, eager: Any, scores: Any, label: str, classes: Sequence[str], tie: float, positions: Positions) -> str:
    right = _label(kind, eager, classes, positions)
    own = slice(len(positions)) if kind.per_position else slice(None)
    if label == right or (label == _label(kind, scores, classes, positions) and kind.margin(eager[own], scores[own]) <= tie):
        return ""
    return f"{label!r} instead of {right!r}"


def _label(kind: TaskKind, scores: Any, classes: Sequence[str], positions: Positions) -> str:
    """The label of one row."""
    return next(iter(kind.decision.answers(scores[None], classes, [positions])), "")


def _concurrent_sets(observed: Observed) -> list[list[Outputs]]:
    """All sets of answers that concurrent callers got, completed with those of the single caller."""
    count = max((len(distinct) for distinct in observed.concurrent_answers.values()), default=0)
    answer_sets = []
    for number in range(count):
        replaced = {place: distinct[min(number, len(distinct) - 1)] for place, distinct in observed.concurrent_answers.items() if distinct}
        answer_sets.append([replaced.get(place, answer) for place, answer in zip(observed.asked, observed.answers, strict=True)])
    return answer_sets


def _scores(answer: Outputs, evidence: Evidence) -> Arrays:
    """The answer without what the server adds."""
    return {name: array for name, array in answer.items() if name not in _ADDED or name in evidence.reference[0]}


def _proven_batches(observed: Observed, evidence: Evidence) -> Check:
    proven = max(len(case.rows) for case in evidence.cases)
    return Check(
        name="max_batch",
        measured=observed.max_batch,
        limit=f"1 to {proven}, the largest batch that was proven",
        passed=1 <= observed.max_batch <= proven,
        advice="the server accepts larger batches than verify compared: build the image again with `paddleship run --again package`",
    )


def _none(name: str, faults: Sequence[str], *, advice: str) -> Check:
    return Check.at_most(name, len(faults), 0, advice=f"{advice}{faults[0] if faults else ''}")


def metrics(judgement: parity.Judgement | None, transport: str) -> Mapping[str, float]:
    kept = ("noise_ratio", "flip_rate")
    return {f"{transport}_{key}": value for key, value in judgement.metrics.items() if key in kept} if judgement is not None else {}
