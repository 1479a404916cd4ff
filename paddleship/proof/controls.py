"""Negative controls: in every run, the judge must refuse answers that are wrong on purpose.

A judge with too large a unit passes anything. So eager's own answers to the rows are changed, output by output: set to zero, halved,
negated, shifted, given to other rows, reversed along every other axis, and shuffled. The judge must refuse each. A control that
changes an answer by less than five percent of its scale (the reversal of a symmetric answer, zeros of zeros) is left out. If none is
left, the output was not exercised, see `exercise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from paddleship.config import loosening
from paddleship.config.sections.verify import Verify
from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof import parity
from paddleship.proof.cases.inputs import Case
from paddleship.proof.evidence import ROWS, Evidence, distance, sizes_of
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Arrays

FLOAT32, LOWER = "float32", "a lower precision"
_SHIFT = {FLOAT32: 0.1, LOWER: 0.4}  # of the scale; decisions show less than numbers
_FLOAT32_LIMITS = ("noise_limit", "typical_limit")
_PLAIN = 5e-2  # of the scale, by which a control must change an answer
_UNLIKE = 0.8  # of the variance over the rows, by which a permutation must change an answer to be a control of a rule about variance
_MANY_FLIPS = 5  # times the allowed share of changed values, for a rule about shares
_ENOUGH = 2_000_000  # values of one output that are judged; larger outputs need fewer cases


@dataclass(frozen=True)
class OutputChange:
    """A change of an output: its description, a function of a case and its answer, and whether it only `reorders` values."""

    description: str
    apply: Callable[[Case, Array], Array]
    reorders: bool = False


@dataclass(frozen=True)
class Control:
    """One wrong answer to all rows: output, change, rule, whether the rule refused it, and what was measured."""

    output: str
    change: str
    rule: str
    refused: bool
    measured: str


def run(evidence: Evidence, *, limits: Verify, lower: bool = False) -> list[Control]:
    """Judge all controls by the rule for float32, and if a candidate has a `lower` precision by that rule too."""
    few = _enough(evidence)
    return [
        control for rule in (FLOAT32, *([LOWER] if lower else [])) for name in few.reference[0] for control in _run(few, name, rule, limits)
    ]


def accepted(controls: Sequence[Control], rule: str, limits: Verify) -> list[Finding]:
    """A finding for each output whose wrong answers pass this rule."""
    by_output: dict[str, list[Control]] = {}
    for control in controls:
        if control.rule == rule and not control.refused:
            by_output.setdefault(control.output, []).append(control)
    return [_finding(output, passed, limits) for output, passed in by_output.items()]


def _finding(output: str, passed: Sequence[Control], limits: Verify) -> Finding:
    changes = "; ".join(f"{control.change} ({control.measured})" for control in passed)
    what = "in the unit of eager's own noise" if passed[0].rule == FLOAT32 else "by the rule for lower precision"
    message = f"answers to {output!r} that are clearly wrong pass {what}: {changes}: nothing can be proven about it"
    advice = (
        f"{_inaccurate(limits)}look for a choice between nearly equal values (top-k, argmax, thresholds), cancellation or underflow"
        if passed[0].rule == FLOAT32
        else "provide more or other labelled rows, or remove the candidates of lower precision"
    )
    return Finding("failed-control", "error", message, advice)


def _inaccurate(limits: Verify) -> str:
    """The likely cause: limits that were loosened, otherwise eager itself."""
    if loosened := loosening.raised(limits, *_FLOAT32_LIMITS):
        return f"limits of verify are weaker than their defaults ({', '.join(loosened)}): remove them from the params, or "
    return "eager float32 is too inaccurate for this output: "


def _run(evidence: Evidence, name: str, rule: str, limits: Verify) -> Iterator[Control]:
    indices = evidence.groups[ROWS]
    scale, _ = sizes_of(evidence, name, indices)
    for change in _changes(evidence, name, rule, scale):
        answers = list(evidence.reference)
        for index in indices:
            answers[index] = {**answers[index], name: change.apply(evidence.cases[index], evidence.reference[index][name])}
        if not _is_clearly_wrong(evidence, answers, name, change, rule, limits):
            continue
        checks: list[Check] = []
        for check in parity.checks_of(evidence, answers, name, limits=limits, lower=rule == LOWER):
            checks.append(check)
            if not check.passed:
                break
        yield Control(
            name, change.description, rule, not all(check.passed for check in checks), ", ".join(_without_advice(check) for check in checks)
        )


def _without_advice(check: Check) -> str:
    return str(check.model_copy(update={"advice": ""}))


def _changes(evidence: Evidence, name: str, rule: str, scale: float) -> Iterator[OutputChange]:
    """All changes of an output."""
    kind = evidence.reference[0][name].dtype.kind
    shift = _SHIFT[rule] * scale if kind == "f" else 1
    yield OutputChange("all zero", lambda _, array: np.zeros_like(array))
    if kind == "b":
        yield OutputChange("negated", lambda _, array: ~array)
    else:
        yield OutputChange("halved", lambda _, array: (array / 2).astype(array.dtype))
        yield OutputChange("negated", lambda _, array: (-array).astype(array.dtype))
        yield OutputChange("shifted", lambda _, array: (array + shift).astype(array.dtype))
    yield OutputChange("given to other rows", _rolled, reorders=True)
    for axis in range(1, max(answer[name].ndim for answer in evidence.reference)):
        yield OutputChange(f"reversed along axis {axis}", partial(_reversed, axis), reorders=True)
    random = np.random.default_rng(0)
    yield OutputChange("shuffled", lambda _, array: random.permutation(array.ravel()).reshape(array.shape), reorders=True)


def _reversed(axis: int, _: Case, array: Array) -> Array:
    return np.flip(array, axis) if axis < array.ndim else array


def _rolled(case: Case, array: Array) -> Array:
    return np.roll(array, len(array) // 2, axis=0) if array.ndim and len(array) == len(case.rows) else array


def _is_clearly_wrong(evidence: Evidence, answers: Sequence[Arrays], name: str, change: OutputChange, rule: str, limits: Verify) -> bool:
    """Whether the changed answers differ so clearly that a judge must refuse them."""
    scale, _ = sizes_of(evidence, name, evidence.groups[ROWS])
    float_output = evidence.reference[0][name].dtype.kind == "f"
    largest = distance(evidence, answers, name, evidence.groups[ROWS])[0]
    if largest <= (_PLAIN * scale if float_output else 0):
        return False
    if rule == FLOAT32:
        return True
    mine, theirs = parity.by_row_or_all(evidence, answers, name)
    if not float_output:
        return bool((mine != theirs).mean() > _MANY_FLIPS * limits.max_flip_rate)
    if not change.reorders:
        return True
    return differences.spread_difference(mine, theirs, rounding=parity.ROUNDING) > _UNLIKE


def _enough(evidence: Evidence) -> Evidence:
    """The smaller cases of rows, up to a total size; at least one has several rows."""
    chosen: list[int] = []
    total = 0
    size = {index: sum(array.size for array in evidence.reference[index].values()) for index in evidence.groups[ROWS]}
    for index in sorted(size, key=lambda index: size[index]):
        if chosen and total + size[index] > _ENOUGH and any(len(evidence.cases[chosen_ids].rows) > 1 for chosen_ids in chosen):
            break
        chosen.append(index)
        total += size[index]
    chosen_ids = {id(evidence.cases[index]) for index in chosen}
    return evidence.only(lambda case: id(case) in chosen_ids)
