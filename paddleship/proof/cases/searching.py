"""Search for inputs that exercise outputs that were empty or constant, and sides of branches that were not taken.

First other rows of the data, then drawn values, see `drawing`: a detection head may find something in a patch, and a condition on a mean
or maximum may change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from paddleship.controlflow import regions
from paddleship.controlflow.tracing import BranchKey
from paddleship.errors import CandidateError
from paddleship.numerics.differences import Array
from paddleship.proof import exercise
from paddleship.proof.answering import Caller
from paddleship.proof.cases.inputs import Case
from paddleship.proof.cases.value_sampling import Limits, redraw
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays, TensorSpec, batch_axis, batch_dimension, sizes_of

SECONDS = 10.0
_MAGNITUDES = (3.0, 10.0, 0.1, 100.0, 0.01, 1000.0)  # sizes of the values of an input without a range


@dataclass(frozen=True)
class Search:
    """The settings of a search.

    `exported` holds the program whose branches count; `more` returns further rows of the data in batches. `real`: the cases are real data,
    so values without a declared range stay within the range of the cases.
    """

    specs: Sequence[TensorSpec]
    exported: Path
    more: Callable[[], Iterable[Batch]] = tuple
    real: bool = False
    seed: int = 0
    seconds: float = SECONDS


@dataclass(frozen=True)
class FoundCase:
    """A case that the search found: eager's answer, the outcomes of branches, and what it is the first to exercise."""

    case: Case
    answer: Arrays
    taken_branches: Mapping[BranchKey, set[int]]
    exercised: tuple[str, ...]


def find(
    search: Search,
    eager: Caller,
    cases: Sequence[Case],
    answers: Sequence[Arrays],
    taken: Mapping[BranchKey, set[int]],
    say: Callable[[str], None],
) -> list[FoundCase]:
    """Find cases that exercise something new, beyond `cases` with eager's `answers` and outcomes of branches (`taken`).

    Rows of the data must exercise outputs themselves: edge cases do not count then. `eager` answers with its method `run`, and returns the
    branches since the last call with `taken_branches`. Cases that it rejects or answers with NaN or infinity are left out; after a crash
    the search ends.
    """
    counted = [index for index, case in enumerate(cases) if case.group == "rows" or not search.real]
    unseen = _Unseen(search.exported, [cases[index] for index in counted], [answers[index] for index in counted], taken)
    found_cases = list[FoundCase]()
    if not unseen.names():
        return found_cases
    say(f"looking for inputs that exercise {', '.join(unseen.names())}, for at most {search.seconds:g} s")
    begun = time.monotonic()
    try:
        eager.call("taken_branches")
        for case in _tries(search, [case.inputs for case in cases if case.group == "rows"], begun + search.seconds / 2):
            if not unseen.names() or time.monotonic() > begun + search.seconds:
                break
            answer, outcomes = eager.call("run", case.inputs), eager.call("taken_branches")
            if _finite(answer) and (exercised := unseen.add(case, answer, outcomes)):
                found_cases.append(FoundCase(case, answer, outcomes, exercised))
    except CandidateError:
        return found_cases
    return found_cases


def findings(found_cases: Sequence[FoundCase]) -> list[Finding]:
    """A warning for outputs and branches that only drawn inputs exercise."""
    drawn = dict.fromkeys(name for one in found_cases if one.case.group == "edge" for name in one.exercised)
    if not drawn:
        return []
    message = f"only drawn inputs exercise {', '.join(drawn)}, no row of the data does"
    return [Finding("drawn-only", "warning", message, "add rows that exercise it to the held-out data, or leave it out of the model")]


class _Unseen:
    """What the cases so far do not exercise: outputs without variation, and sides of branches that were not taken."""

    def __init__(self, exported: Path, cases: Sequence[Case], answers: Sequence[Arrays], taken: Mapping[BranchKey, set[int]]) -> None:
        self._decisions = regions.read(exported)
        self._taken = {key: set(outcomes) for key, outcomes in taken.items()}
        self._outputs = {name: one for name, one in exercise.variations(cases, answers).items() if one.missing}
        self._sides = regions.untaken(self._decisions, self._taken)

    def names(self) -> list[str]:
        """Descriptions of what is not exercised."""
        sides = [f"{len(self._sides)} sides of branches"] if len(self._sides) > 1 else ["a side of a branch"] if self._sides else []
        return [f"output {name}" for name in self._outputs] + sides

    def add(self, case: Case, answer: Arrays, taken: Mapping[BranchKey, set[int]]) -> tuple[str, ...]:
        """Add a case. Returns what it is the first to exercise."""
        for name, one in self._outputs.items():
            one.add(case, answer.get(name, np.zeros(0)))
        seen = [name for name, one in self._outputs.items() if not one.missing]
        self._outputs = {name: one for name, one in self._outputs.items() if one.missing}
        outcomes = {key: self._taken.get(key, set()) | taken.get(key, set()) for key in {*self._taken, *taken}}
        left = regions.untaken(self._decisions, outcomes)
        sides = dict.fromkeys(f"{regions.quote(one.site)} ({one.site.where})" for one, side in self._sides if (one, side) not in left)
        if seen or sides:
            self._taken, self._sides = outcomes, left
        return (*(f"output {name}" for name in seen), *sides)


def _finite(answer: Arrays | str) -> bool:
    return not isinstance(answer, str) and all(np.isfinite(array).all() for array in answer.values() if array.dtype.kind == "f")


def _tries(search: Search, rows: Sequence[Batch], until: float) -> Iterator[Case]:
    """An endless sequence of cases to try: further rows until some time, then drawn values with the sizes of known rows."""
    for number, more in enumerate(search.more(), 1):
        if time.monotonic() > until:
            break
        yield Case(f"further rows, {number}", "rows", more)
    random, batch = np.random.default_rng(search.seed), batch_dimension(search.specs)
    held = {spec.name: _held([batch[spec.name] for batch in rows]) if search.real else (None, None) for spec in search.specs}
    for attempt in count():
        like, size = rows[attempt % len(rows)], _MAGNITUDES[attempt // len(rows) % len(_MAGNITUDES)]
        limits = {spec.name: _limits(spec, sizes_of(search.specs, like), held[spec.name]) for spec in search.specs}
        drawn = {spec.name: redraw(like[spec.name], limits[spec.name], size, random, axis=batch_axis(spec, batch)) for spec in search.specs}
        yield Case(f"drawn values, {attempt + 1}", "edge", drawn)


def _held(arrays: Sequence[Array]) -> Limits:
    """The lowest and the highest finite value of an input; None where there is none."""
    finite = np.concatenate([array[np.isfinite(array)] for array in arrays])
    return (finite.min(), finite.max()) if finite.size else (None, None)


def _limits(spec: TensorSpec, sizes: Mapping[str, int], held: Limits) -> Limits:
    """The declared range of an input; an end that is not declared comes from the rows."""
    low, high = spec.limits(sizes)
    return (held[0] if low is None else low, held[1] if high is None else high)
