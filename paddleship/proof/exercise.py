"""What was not exercised: outputs that were empty or the same in all that was asked, and inputs that changed nothing.

A candidate that always gives a constant agrees with an output that happened to be constant, so agreement proves nothing there.
Of the first output, which decides, that is an error: nothing may be called proven. Of another one, and of an input, it is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof.evidence import NOISE_CEILING, ROWS, Evidence
from paddleship.proof.inputs import Case
from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.common.spec import Arrays

_VARIES = 1e-5  # of an output's size
_TRIED = 3  # cases in which one input's values are given to other rows

Ask = Callable[[dict[str, Array]], "Arrays | str"]


def outputs(evidence: Evidence, *, limit: float) -> dict[str, str]:
    """Outputs that were empty or constant, in words: they varied by no more than `limit` times eager's noise, where that is small."""
    tolerances = {name: min(limit * noise.largest, NOISE_CEILING * noise.scale) for name, noise in evidence.noise[ROWS].items()}
    return unvarying(evidence.cases, evidence.reference, tolerances)


def unvarying(cases: Sequence[Case], answers: Sequence[Arrays], tolerances: Mapping[str, float]) -> dict[str, str]:
    """Outputs that were empty, or varied by no more than their tolerance where the inputs did, in words."""
    found = variations(cases, answers, tolerances)
    return {name: f"{words} in all of {len(answers)} batches" for name, one in found.items() if (words := one.missing)}


def variations(cases: Sequence[Case], answers: Sequence[Arrays], tolerances: Mapping[str, float] | None = None) -> dict[str, Variation]:
    """How each output varied over these answers; without `tolerances`, less than 1e-5 of an output's size is no variation."""
    if tolerances is None:
        tolerances = {name: _VARIES * differences.finite_max([answer[name] for answer in answers]) for name in answers[0]}
    found = {name: Variation(tolerances.get(name, 0.0)) for name in answers[0]}
    for case, answer in zip(cases, answers, strict=True):
        for name, one in found.items():
            one.add(case, answer[name])
    return found


class Variation:
    """Whether one output varied with the inputs, over the cases that were added.

    It did where some answer differs from the first of its shape, and where no two different questions have answers of one shape
    that are not empty.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._first: dict[tuple[int, ...], tuple[bytes, Array]] = {}
        self._size, self._compared, self._varied = 0, False, False

    def add(self, case: Case, array: Array) -> None:
        """Look at one answer; once the output has varied, no further one is looked at."""
        self._size += array.size
        for question, answer in () if self._varied or not array.size else _pieces(case, array):
            asked, known = self._first.setdefault(answer.shape, (question, answer))
            if asked != question:
                self._compared = True
                self._varied = self._varied or _differ(known, answer, self._tolerance)

    @property
    def missing(self) -> str:
        """What the answers were in place of varying; empty where they varied."""
        if not self._size:
            return "empty"
        return "the same for all inputs" if self._compared and not self._varied else ""


def inputs(ask: Ask, cases: Sequence[Case], reference: Sequence[Arrays]) -> dict[str, str]:
    """Inputs that changed no output where each row was given another row's value of it, or that were the same in all rows, in words."""
    names = list(cases[0].inputs)
    several = [place for place, case in enumerate(cases) if len(case.rows) > 1]
    by_size = sorted(several, key=lambda place: sum(array.size for array in cases[place].inputs.values()))
    found = {}
    for name in names if len(names) > 1 and several else []:
        varied = [place for place in by_size if not differences.equal(_turned(cases[place], name), cases[place].inputs[name])]
        found[name] = _idle(ask, name, [(cases[place], reference[place]) for place in dict.fromkeys([*varied[:_TRIED], *varied[-1:]])])
    return {name: words for name, words in found.items() if words}


def findings(unvarying_outputs: Mapping[str, str], idle_inputs: Mapping[str, str], *, first: str) -> list[Finding]:
    """One finding for each; an error for the first output."""
    found = []
    for name, words in unvarying_outputs.items():
        severity: Severity = "error" if name == first else "warning"
        message = f"output {name} was {words}, so it was not exercised and nothing is proven of it"
        advice = "ask rows for which it differs (verify.samples, or other rows of the test part), or leave this output out"
        found.append(Finding("not-exercised", severity, message, advice, layer=name))
    for name, words in idle_inputs.items():
        message = f"input {name} {words}, so it was not exercised and nothing is proven of how it is used"
        advice = "ask rows in which it matters, or leave this input out"
        found.append(Finding("not-exercised", "warning", message, advice, layer=name))
    return found


def _pieces(case: Case, array: Array) -> list[tuple[bytes, Array]]:
    """What was asked and what was answered: row by row where the answer has a row for each of the batch, else as a whole."""
    given = list(case.inputs.values())
    count = given[0].shape[0] if given and given[0].ndim else 0
    if array.ndim and count and len(array) == count and all(part.ndim and len(part) == count for part in given):
        return [(b"".join(part[row].tobytes() for part in given), array[row]) for row in range(count)]
    return [(b"".join(part.tobytes() for part in given), array)]


def _differ(one: Array, two: Array, tolerance: float) -> bool:
    return bool((differences.elementwise_distance(one, two) > tolerance).any())


def _idle(ask: Ask, name: str, tried: Sequence[tuple[Case, Arrays]]) -> str:
    """Why nothing is known of how an input is used, given cases whose rows differ in it; empty where it has an influence."""
    for case, expected in tried:
        answer = ask({**case.inputs, name: _turned(case, name)})
        if isinstance(answer, str) or any(
            key not in answer or not differences.equal(array, answer[key]) for key, array in expected.items()
        ):
            return ""
    return "changed no output when rows were given each other's values" if tried else "was the same in all rows that were compared"


def _turned(case: Case, name: str) -> Array:
    """The input with each row's value given to the next row."""
    array = case.inputs[name]
    return np.roll(array, 1, axis=0) if array.ndim else array
