"""Judge whether a candidate answers as right as the eager model.

`truth` is the eager model in float64, `reference` in float32, `candidate` anything else, all on the same cases. The error of an answer
is max|x - truth| over the largest |truth| of that output, so that outputs of any size are judged alike. `noise_ratio` is the candidate's
error over the reference's: 1 means as far from the truth as eager itself. `typical_ratio` is the same for the root mean square. It
varies little between honest runs, so its limit is smaller, and it finds a small error that affects many answers.

A candidate of lower precision is judged by decisions: `flip_rate` and `metric_drop`, by the upper end of their 95% intervals. They are
about the first output, which must also keep its size and position (`decided_slope`, `decided_offset`), because decisions do not show that
scores are halved or shifted. Every other output is judged by `output_agreement` (at least LEAST_AGREEMENT of its variance over the
rows), or by `output_flip_rate` for integers and bools. Rows that walk through every id have weaker limits, see `walks`.

The same rules judge wrong answers in every run, see `controls`.

Where eager float32 is NaN or infinite, a candidate of any precision must be the same, also if float64 is finite, because the candidate
replaces eager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce

import numpy as np

from paddleship.config.sections.verify import Verify
from paddleship.data.task_kinds import positions
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import CandidateError
from paddleship.numerics import differences
from paddleship.numerics.differences import Array, OutputErrors, wide
from paddleship.proof import id_sweep
from paddleship.proof.evidence import ROWS, Evidence, by_row, distance, sizes_of
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Arrays

LEAST_AGREEMENT = 0.9  # a wrong sign leaves 0, two exchanged outputs with a correlation of 0.95 leave this; honest bfloat16 0.999
LEAST_SLOPE, MOST_OFFSET = 2 / 3, 0.2  # halved scores leave 0.5, scores shifted by 0.4 of the scale 0.4; honest int8 0.9 and 0.05
ROUNDING = 2.0**-6  # of an output's size, by which a constant output may be off: two roundings of bfloat16 or int8


@dataclass(frozen=True)
class Judgement:
    """The measures and checks of one candidate.

    `worst` is the index of the case with the largest error; `outputs` has the measures of each output.
    """

    metrics: dict[str, float]
    checks: list[Check] = field(repr=False)
    worst: int = 0
    worst_case: str = ""
    outputs: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)
    findings: list[Finding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)


def judge(evidence: Evidence, answers: Sequence[Arrays], *, limits: Verify, precision: str = "float32") -> Judgement:
    """Judge one candidate's answers to all cases. Other names, dtypes or shapes, and NaN where eager has none, always fail."""
    if len(answers) != len(evidence.cases) or not answers:
        raise CandidateError(f"{len(answers)} answers for {len(evidence.cases)} cases: nothing can be decided")
    if flaw := _first_flaw(evidence, answers):
        index, finding = flaw
        limit = "names, dtypes, shapes and finite values of eager"
        check = Check(name="answers", measured=finding.message, limit=limit, passed=False)
        return Judgement({}, [check], index, evidence.cases[index].name, findings=[finding])
    ratios = {name: _ratios(evidence, answers, name) for name in evidence.reference[0]}
    errors = {name: _errors(evidence, answers, name) for name in ratios}
    worst_output = max(ratios, key=lambda name: np.nan_to_num(ratios[name].noise_ratio, nan=np.inf))
    worst = ratios[worst_output].worst_case
    outputs = {name: measures.to_dict() | asdict(errors[name]) for name, measures in ratios.items()}
    metrics = reduce(_Ratios.worst, ratios.values()).to_dict() | asdict(reduce(OutputErrors.worst, errors.values()))
    metrics |= _decisions(evidence, answers)
    if precision == "float32":
        checks = list(noise_checks(metrics, limits))
    else:
        others = {name: _agreement(evidence, answers, name) for name in undecided(evidence)}
        for name, measured in others.items():
            outputs[name] |= measured
        likeness = _slope_and_offset(evidence, answers) if next(iter(outputs)) not in others else {}
        extra = [*_slope_checks(likeness), *_other_checks(others, limits)]
        extra += id_sweep.checks(evidence, answers, rounding=ROUNDING) if precision in id_sweep.PRECISIONS else []
        metrics |= {check.name: float(check.measured) for check in extra if isinstance(check.measured, float | int)}
        checks = [*_decision_checks(metrics, limits), *extra]
    return Judgement(metrics, checks, worst, f"{worst_output}, {evidence.cases[worst].name}", outputs)


def checks_of(evidence: Evidence, answers: Sequence[Arrays], name: str, *, limits: Verify, lower: bool) -> Iterator[Check]:
    """The checks of `judge` for one output, in float32 or a lower precision; cheap checks first, each made when it is asked for."""
    if not lower:
        yield from noise_checks(_ratios(evidence, answers, name).to_dict(), limits)
    elif name in undecided(evidence):
        yield from _other_checks({name: _agreement(evidence, answers, name)}, limits)
    else:
        yield from _slope_checks(_slope_and_offset(evidence, answers))
        yield from _decision_checks(_decisions(evidence, answers), limits)


def noise_checks(metrics: Mapping[str, float], limits: Verify) -> list[Check]:
    advice = "the candidate is further from the truth than eager's own rounding explains: do not ship it; see the findings in the report"
    return [
        Check.at_most("noise_ratio", metrics["noise_ratio"], limits.noise_limit, advice=advice),
        Check.at_most("typical_ratio", metrics["typical_ratio"], limits.typical_limit, advice=advice),
    ]


def _decision_checks(metrics: dict[str, float], limits: Verify) -> list[Check]:
    more = "or raise verify.samples where the interval is wide because rows are few"
    checks = []
    if "flip_rate_high" in metrics:
        advice = f"decisions change: ship a more precise candidate, {more}"
        checks.append(Check.at_most("flip_rate_high", metrics["flip_rate_high"], limits.max_flip_rate, advice=advice))
    if "metric_drop_high" in metrics:
        advice = f"the task's score falls: ship a more precise candidate, {more}"
        if not np.isfinite(metrics["metric_drop"]):
            advice = f"a score must be finite: it is {metrics['metric']:.6g} for the candidate, a drop of {metrics['metric_drop']:.6g}"
        checks.append(Check.at_most("metric_drop_high", metrics["metric_drop_high"], limits.max_metric_drop, advice=advice))
    if not checks:
        advice = "a lower precision is judged by decisions on labelled rows: give some, or leave this candidate out"
        checks.append(Check(name="decisions", measured=0, limit="1 or more", passed=False, advice=advice))
    return checks


def _first_flaw(evidence: Evidence, answers: Sequence[Arrays]) -> tuple[int, Finding] | None:
    """The first answer that cannot be compared with the reference, and its error."""
    for index, (case, answer, expected) in enumerate(zip(evidence.cases, answers, evidence.reference, strict=True)):
        if list(answer) != list(expected):
            return index, _form(f"{case.name}: outputs {list(answer)}, eager has {list(expected)}")
        for name, array in answer.items():
            wanted = expected[name]
            if array.dtype != wanted.dtype or array.shape != wanted.shape:
                return index, _form(
                    f"{case.name}: {name} is {array.dtype}{list(array.shape)}, eager's is {wanted.dtype}{list(wanted.shape)}"
                )
            if array.dtype.kind == "f" and (difference := _nonfinite_difference(array, wanted)):
                return index, Finding("not-finite", "error", f"{case.name}: {name}{difference}")
    return None


def _nonfinite_difference(array: Array, wanted: Array) -> str:
    """The error message if an answer or eager is NaN or infinite where the other is not; otherwise empty."""
    wrong = np.isinf(differences.elementwise_distance(array, wanted))
    if not (count := int(wrong.sum())):
        return ""
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    example = f"{float(array[first]):.6g} at {list(first)}, where eager has {float(wanted[first]):.6g}"
    if strange := int((~np.isfinite(array) & np.isfinite(wanted)).sum()):
        return f" has {strange} NaN or infinite values where eager has none ({example})"
    return f" has {count} other values where eager has NaN or infinity ({example})"


def _form(message: str) -> Finding:
    return Finding("another-form", "error", message)


@dataclass(frozen=True)
class _Ratios:
    """The errors of one output in units of eager's noise, and the index of its worst case."""

    noise_ratio: float = 0.0
    typical_ratio: float = 0.0
    reference_error: float = 0.0
    worst_case: int = 0

    def worst(self, other: _Ratios) -> _Ratios:
        """The worse of the two in each measure; NaN is the worst."""
        graver = max(self, other, key=lambda ratios: np.nan_to_num(ratios.noise_ratio, nan=np.inf))
        return replace(
            graver,
            typical_ratio=float(np.maximum(self.typical_ratio, other.typical_ratio)),
            reference_error=float(np.maximum(self.reference_error, other.reference_error)),
        )

    def to_dict(self) -> dict[str, float]:
        return {"noise_ratio": self.noise_ratio, "typical_ratio": self.typical_ratio, "reference_error": self.reference_error}


def _ratios(evidence: Evidence, answers: Sequence[Arrays], name: str) -> _Ratios:
    ratios = _Ratios()
    for group, indices in evidence.groups.items():
        noise = evidence.noise[group][name]
        largest, typical, worst = distance(evidence, answers, name, indices)
        typical_ratio = typical / noise.typical if group == ROWS else 0.0  # an edge case has too few numbers for a mean
        reference_error = noise.largest / noise.scale if noise.scale else 0.0
        ratios = ratios.worst(_Ratios(largest / noise.largest, typical_ratio, reference_error, worst))
    return ratios


def _errors(evidence: Evidence, answers: Sequence[Arrays], name: str) -> OutputErrors:
    """The distances of one output from the reference over all cases."""
    pairs = zip(answers, evidence.reference, strict=True)
    return reduce(OutputErrors.worst, (differences.differences(answer[name], reference[name]) for answer, reference in pairs))


def _decisions(evidence: Evidence, answers: Sequence[Arrays], *, interval: bool = True) -> dict[str, float]:
    """Flip rate and drop of the score over distinct rows, with intervals; the interval of the score takes a while."""
    before, rows = by_row(evidence, evidence.reference)
    after, _ = by_row(evidence, answers)
    if evidence.task is None or not before.size:
        return {}
    kind, found = task_kinds.get(evidence.task), dict[str, float]()
    labels = _labels(evidence, rows)
    if (flips := kind.flips(before, after, labels)) is not None:
        low, high = differences.proportion_interval(int(flips.sum()), flips.size)
        found |= {"flip_rate": float(flips.mean()), "flip_rate_low": low, "flip_rate_high": high}
    if labels is not None and kind.fits(before, labels):
        if not interval:
            return found | {"metric_drop": 0.0}
        mine, theirs = (kind.score.rows(outputs, labels) for outputs in (after, before))
        drop, low, high = differences.drop_interval(kind.score.of_rows, theirs, mine, labels)
        found |= {"metric": kind.score.of(after, labels)}
        found |= {"metric_drop": drop, "metric_drop_low": low, "metric_drop_high": high}
    return found


def score_of_eager(evidence: Evidence) -> float | None:
    """The task's score of eager's answers to the rows; None if there is none."""
    outputs, rows = by_row(evidence, evidence.reference)
    kind, labels = task_kinds.get(evidence.task) if evidence.task is not None else None, _labels(evidence, rows)
    return kind.score.of(outputs, labels) if kind and labels is not None and kind.fits(outputs, labels) else None


def _labels(evidence: Evidence, rows: list[int]) -> Array | None:
    """The labels of distinct rows; None if they are unknown."""
    return evidence.labels[rows] if rows and len(evidence.labels) > max(rows) else None


def undecided(evidence: Evidence) -> list[str]:
    """The outputs that no decision judges: all except the first, and the first too if it decides nothing."""
    names = list(evidence.reference[0])
    rows = by_row(evidence, evidence.reference)[0]
    decisive = evidence.task is None or task_kinds.get(evidence.task).decisive(rows)
    decided = bool(_decisions(evidence, evidence.reference, interval=False).keys() & {"flip_rate", "metric_drop"})
    return names[decided and decisive :]


def _slope_and_offset(evidence: Evidence, answers: Sequence[Arrays]) -> dict[str, float]:
    """Size and position of the deciding output over the rows: its slope on eager's or the inverse, whichever is smaller, and its offset.

    The offset is in units of the scale. The slope is 1 if eager's output hardly varies.
    """
    name = next(iter(evidence.reference[0]))
    mine, theirs = by_row_or_all(evidence, answers, name)
    if theirs.dtype.kind != "f":
        return {}
    scale, mask = sizes_of(evidence, name, evidence.groups[ROWS])
    valid = np.isfinite(theirs) & np.isfinite(mine) & (np.abs(theirs) < mask)
    slope, offset = differences.slope_and_offset(mine, theirs, valid=valid, rounding=ROUNDING)
    return {"decided_slope": slope, "decided_offset": offset / scale if scale else offset}


def _slope_checks(likeness: Mapping[str, float]) -> list[Check]:
    if not likeness:
        return []
    advice = "decisions are kept and the numbers are not: look for a wrong scale in the quantisation, or ship a more precise candidate"
    return [
        Check.at_least("decided_slope", likeness["decided_slope"], LEAST_SLOPE, advice=advice),
        Check.at_most("decided_offset", likeness["decided_offset"], MOST_OFFSET, advice=advice),
    ]


def _agreement(evidence: Evidence, answers: Sequence[Arrays], name: str) -> dict[str, float]:
    """The agreement of one output over distinct rows, or over all its values if rows have different shapes or there are none."""
    mine, theirs = by_row_or_all(evidence, answers, name)
    if theirs.dtype.kind == "f":
        scale, mask = sizes_of(evidence, name, evidence.groups[ROWS])
        masked = np.isfinite(theirs) & (np.abs(theirs) >= mask)
        shrunk = np.where(masked, scale / np.where(masked, np.abs(wide(theirs)), 1), 1)
        return {"agreement": differences.agreement(mine * shrunk, theirs * shrunk, rounding=ROUNDING)}
    return {"flip_rate": float((mine != theirs).mean()) if theirs.size else 0.0}


def by_row_or_all(evidence: Evidence, answers: Sequence[Arrays], name: str) -> tuple[Array, Array]:
    """One output of the answers and of eager over distinct rows, or all its values if rows have different shapes or there are none.

    A first output that decides each position is that of all positions, without padding.
    """
    pair = [by_row(evidence, one, name)[0] for one in (answers, evidence.reference)]
    if name == next(iter(evidence.reference[0])):
        pair = [_without_padding(evidence, array) for array in pair]
    if not pair[1].size:
        pair = [np.concatenate([one[index][name].ravel() for index in evidence.groups[ROWS]]) for one in (answers, evidence.reference)]
    return pair[0], pair[1]


def _other_checks(others: dict[str, dict[str, float]], limits: Verify) -> list[Check]:
    """A check for the worst output of each measure; the advice names it."""
    advice = "{} is not eager's: look for exchanged outputs and weights of another checkpoint, or ship a more precise candidate"
    agreements = {name: measures["agreement"] for name, measures in others.items() if "agreement" in measures}
    flips = {name: measures["flip_rate"] for name, measures in others.items() if "flip_rate" in measures}
    checks = []
    if agreements:
        name = min(agreements, key=lambda name: agreements[name])
        checks.append(Check.at_least("output_agreement", agreements[name], LEAST_AGREEMENT, advice=advice.format(name)))
    if flips:
        name = max(flips, key=lambda name: flips[name])
        checks.append(Check.at_most("output_flip_rate", flips[name], limits.max_flip_rate, advice=advice.format(name)))
    return checks


def decisions(evidence: Evidence, answers: Sequence[Arrays]) -> tuple[Array, Array] | None:
    """The classes that eager and the candidate choose, by row or position; None if the task does not choose one class."""
    decision = task_kinds.get(evidence.task).decision if evidence.task is not None else None
    if decision is None or decision.joint:
        return None
    before, after = (decision.decide(by_row(evidence, each)[0]) for each in (evidence.reference, answers))
    if before is None or after is None:
        return None
    return _without_padding(evidence, before), _without_padding(evidence, after)


def _without_padding(evidence: Evidence, values: Array) -> Array:
    """Values by distinct row as values by position, if the task decides each position and its labels are known."""
    rows = by_row(evidence, evidence.reference)[1] if evidence.per_position else []
    return positions.at(values, evidence.labels[rows]) if rows and len(evidence.labels) > max(rows) else values


def errors(evidence: Evidence, answers: Sequence[Arrays]) -> Array:
    """The error of every number in the answers to the rows, in units of eager's largest error; for a histogram."""
    parts = []
    for index in evidence.groups[ROWS]:
        for name, noise in evidence.noise[ROWS].items():
            distances = differences.elementwise_distance(answers[index][name], evidence.truth[index][name]) / noise.largest
            parts.append(distances[np.isfinite(distances)].ravel())
    return np.concatenate(parts)
