"""Find outputs that were empty or constant in all cases, and inputs that changed no output: they are not exercised.

A candidate that always returns a constant agrees with an output that happened to be constant, so agreement proves nothing. For the first
output, which decides, this is an error. For another output or an input it is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof.cases.inputs import Case
from paddleship.proof.evidence import NOISE_CEILING, ROWS, Evidence
from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.spec import Arrays

_VARIES = 1e-5  # of an output's size
_BETWEEN = 0.1  # of the numbers of a saturated output may have other values than the lowest and the highest
_ZERO = 1e-27  # the smallest probability that Paddle's softmax gives is exp(-64), 1.6e-28
_SAME = "the same for all inputs"
_TRIED = 3  # cases in which the values of an input are given to other rows

Ask = Callable[[dict[str, Array]], "Arrays | str"]


def outputs(evidence: Evidence, *, limit: float, real: bool = False) -> dict[str, str]:
    """Outputs that were empty, constant or saturated, with a description: they varied by at most `limit` times eager's noise.

    `real`: the rows are data, and a float output must vary over them: that it varies for edge cases alone does not count.
    """
    tolerances = {name: min(limit * noise.largest, NOISE_CEILING * noise.scale) for name, noise in evidence.noise[ROWS].items()}
    everywhere = unvarying(evidence.cases, evidence.reference, tolerances)
    return {**_saturated(evidence), **(_constant_over_rows(evidence, tolerances) if real else {}), **everywhere}


def _constant_over_rows(evidence: Evidence, tolerances: Mapping[str, float]) -> dict[str, str]:
    """Float outputs that were the same for all rows of the data."""
    indices = evidence.groups[ROWS]
    by_output = variations([evidence.cases[index] for index in indices], [evidence.reference[index] for index in indices], tolerances)
    floats = {name: one for name, one in by_output.items() if evidence.reference[0][name].dtype.kind == "f"}
    return {name: f"{_SAME} in all of {len(indices)} batches of rows" for name, one in floats.items() if one.missing == _SAME}


def _saturated(evidence: Evidence) -> dict[str, str]:
    """Float outputs whose numbers are nearly all the lowest or the highest one because they are rounded or cut off there.

    Such as probabilities far from a threshold, or what `tanh` and `clip` give for large numbers. A mask of two values has no other ones,
    also in float64 and for edge cases.
    """
    saturated = {}
    for name, first in evidence.reference[0].items():
        if first.dtype.kind == "f" and (ends := _Ends.of(evidence, name)) and ends.inside:
            saturated[name] = (
                f"{ends.low:g} or {ends.high:g} in {ends.share:.2%} of its numbers, rounded from other values (saturated), over "
                f"{len(evidence.cases)} batches"
            )
    return saturated


def masks(evidence: Evidence) -> list[Finding]:
    """A warning for each float output that has two values only, in all cases and in float64: what decides between them was not compared."""
    found = []
    for name, first in evidence.reference[0].items():
        if first.dtype.kind == "f" and (ends := _Ends.of(evidence, name)) and not ends.inside:
            message = f"output {name} is {ends.low:g} or {ends.high:g} in every case, so only which of the two it is was compared"
            advice = "return the number that decides between them too, if it has to be proven"
            found.append(Finding("two-values", "warning", message, advice, layer=name))
    return found


@dataclass(frozen=True)
class _Ends:
    """The lowest and the highest number of an output whose numbers are nearly all one of the two, and the `share` that is.

    `inside`: somewhere, also in float64, a number lies between them.
    """

    low: float
    high: float
    share: float
    inside: bool

    @classmethod
    def of(cls, evidence: Evidence, name: str) -> _Ends | None:
        """None if many numbers of distinct rows are in between, or more than are at either end; one number at an end is no sign of it."""
        rows = _of_distinct_rows(evidence, name)
        if not rows.size or not np.isfinite(rows).all() or rows.min() == rows.max():
            return None
        low, high = float(rows.min()), float(rows.max())
        near = _ZERO if abs(low) <= _ZERO else 0.0
        lows, highs = int((rows <= low + near).sum()), int((rows == high).sum())
        between = rows.size - lows - highs
        if min(lows, highs) <= max(between, 1) or between > _BETWEEN * rows.size:
            return None
        every = (answer[name] for answers in (evidence.reference, evidence.truth) for answer in answers)
        inside = any(bool(((array > low + near) & (array < high)).any()) for array in every)
        return cls(0.0 if near else low, high, (lows + highs) / rows.size, inside)


def _of_distinct_rows(evidence: Evidence, name: str) -> Array:
    """The numbers of an output, from the largest batch that a row is in; of answers without rows, those of the largest one."""
    of_row: dict[int, tuple[int, Array]] = {}
    whole = np.zeros(0)
    for index in evidence.groups[ROWS]:
        case, array = evidence.cases[index], evidence.reference[index][name]
        if array.ndim and len(array) == len(case.rows):
            of_row |= {row: (len(array), one) for row, one in zip(case.rows, array, strict=True) if of_row.get(row, (0,))[0] < len(array)}
        elif array.size > whole.size:
            whole = np.ravel(array)
    return np.concatenate([whole, *(np.ravel(one) for _, one in of_row.values())])


def unvarying(cases: Sequence[Case], answers: Sequence[Arrays], tolerances: Mapping[str, float]) -> dict[str, str]:
    """Outputs that were empty, or varied by at most their tolerance although the inputs varied, with a description."""
    by_output = variations(cases, answers, tolerances)
    return {name: f"{missing} in all of {len(answers)} batches" for name, one in by_output.items() if (missing := one.missing)}


def variations(cases: Sequence[Case], answers: Sequence[Arrays], tolerances: Mapping[str, float] | None = None) -> dict[str, Variation]:
    """The variation of each output over these answers; without `tolerances`, less than 1e-5 of an output's size is none."""
    if tolerances is None:
        tolerances = {name: _VARIES * differences.finite_max([answer[name] for answer in answers]) for name in answers[0]}
    by_output = {name: Variation(tolerances.get(name, 0.0)) for name in answers[0]}
    for case, answer in zip(cases, answers, strict=True):
        for name, one in by_output.items():
            one.add(case, answer[name])
    return by_output


class Variation:
    """Whether one output varied with the inputs, over the cases that were added.

    It varied if some answer differs from the first one of its shape, in which later answers replace what is not finite. It also counts as
    varied if no two different inputs have non-empty answers of the same shape.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._first: dict[tuple[int, ...], tuple[bytes, Array]] = {}
        self._size, self._compared, self._varied = 0, False, False

    def add(self, case: Case, array: Array) -> None:
        """Add one answer; after the output has varied, answers are ignored."""
        self._size += array.size
        for question, answer in () if self._varied or not array.size else _pieces(case, array):
            asked, known = self._first.setdefault(answer.shape, (question, answer))
            if asked != question:
                self._compared = True
                self._varied = self._varied or _differ(known, answer, self._tolerance)
                self._first[answer.shape] = (asked, np.where(np.isfinite(known), known, answer))

    @property
    def missing(self) -> str:
        """How the output failed to vary; empty if it varied."""
        if not self._size:
            return "empty"
        return _SAME if self._compared and not self._varied else ""


def inputs(ask: Ask, cases: Sequence[Case], reference: Sequence[Arrays]) -> dict[str, str]:
    """Inputs that changed no output when rows were given each other's values, or that were the same in all rows, with a description."""
    names = list(cases[0].inputs)
    several = [index for index, case in enumerate(cases) if len(case.rows) > 1]
    by_size = sorted(several, key=lambda index: sum(array.size for array in cases[index].inputs.values()))
    reasons = {}
    for name in names if len(names) > 1 and several else []:
        varied = [index for index in by_size if not differences.equal(_rotated(cases[index], name), cases[index].inputs[name])]
        reasons[name] = _idle(ask, name, [(cases[index], reference[index]) for index in dict.fromkeys([*varied[:_TRIED], *varied[-1:]])])
    return {name: reason for name, reason in reasons.items() if reason}


def findings(unvarying_outputs: Mapping[str, str], idle_inputs: Mapping[str, str], *, first: str) -> list[Finding]:
    """One finding for each; an error for the first output."""
    findings = []
    for name, reason in unvarying_outputs.items():
        severity: Severity = "error" if name == first else "warning"
        message = f"output {name} was {reason}, so it was not exercised and nothing is proven of it"
        advice = "ask rows for which it differs (verify.samples, or other rows of the test part), or leave this output out"
        findings.append(Finding("not-exercised", severity, message, advice, layer=name))
    for name, reason in idle_inputs.items():
        message = f"input {name} {reason}, so it was not exercised and nothing is proven of how it is used"
        advice = "ask rows in which it matters, or leave this input out"
        findings.append(Finding("not-exercised", "warning", message, advice, layer=name))
    return findings


def _pieces(case: Case, array: Array) -> list[tuple[bytes, Array]]:
    """Pairs of input and answer: row by row if the answer has one row for each row of the batch, otherwise as a whole."""
    arrays = list(case.inputs.values())
    count = arrays[0].shape[0] if arrays and arrays[0].ndim else 0
    if array.ndim and count and len(array) == count and all(part.ndim and len(part) == count for part in arrays):
        return [(b"".join(part[row].tobytes() for part in arrays), array[row]) for row in range(count)]
    return [(b"".join(part.tobytes() for part in arrays), array)]


def _differ(one: Array, two: Array, tolerance: float) -> bool:
    """Whether finite numbers differ: NaN and infinity are no variation, because a constant times infinity is NaN too."""
    finite = np.isfinite(one) & np.isfinite(two)
    return bool((differences.elementwise_distance(one, two)[finite] > tolerance).any())


def _idle(ask: Ask, name: str, tried: Sequence[tuple[Case, Arrays]]) -> str:
    """Why the influence of an input is unknown, given cases whose rows differ in it; empty if it has an influence."""
    for case, expected in tried:
        answer = ask({**case.inputs, name: _rotated(case, name)})
        if isinstance(answer, str) or any(
            key not in answer or not differences.equal(array, answer[key]) for key, array in expected.items()
        ):
            return ""
    return "changed no output when rows were given each other's values" if tried else "was the same in all rows that were compared"


def _rotated(case: Case, name: str) -> Array:
    """The input with each row's value given to the next row."""
    array = case.inputs[name]
    return np.roll(array, 1, axis=0) if array.ndim else array
