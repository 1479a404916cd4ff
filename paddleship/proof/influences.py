"""Find hidden influences on the eager model's answers: the clock, environment variables, earlier calls, the process.

A few small cases are asked again in separate processes in which the clock stands still and every random generator is seeded before each
call, so that a difference has one cause. Another process is started only if the user's code read the clock while it was built, or read
an environment variable.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from paddleship.errors import BadInput, ModelError
from paddleship.model.eager import Eager, SourceModel
from paddleship.numerics import differences
from paddleship.proof.circumstances import Circumstances
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.proof.state import State
from paddleship.reports.finding import Finding
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import Arrays
from paddleship.system.isolate import Isolated, threads

KIND = "hidden-influence"

_CASES = 3
_SLOW_S = 0.5  # if the first answer to the smallest case takes longer, no other case is asked
_CALLS, _CALLS_S = 100, 2.0  # calls in between, and their time limit
_DAY_S = 86400.0
_LATER_S = {"an hour later": 3600.0 + 61.5, "400 days later": 400 * _DAY_S + 7 * 3600 + 13 * 60 + 17.4, "30 years later": 10958 * _DAY_S}
_VARIABLES, _VALUES = 6, 4  # environment variables that are tried, and values of each

_VARIABLES_S = 60  # then no other value of a variable is tried

_ROUNDING, _NOISES, _COARSEST = 1e-5, 4, 1e-3  # of a value, of eager's noise, and of the size of an output


class Cause(StrEnum):
    """A hidden influence on answers."""

    CLOCK = "clock"
    ENVIRONMENT = "environment"
    HISTORY = "history"
    PROCESS = "process"


_ADVICE = {
    Cause.CLOCK: "take the time as an input of the model, so that it is declared, compared and sent by the client",
    Cause.ENVIRONMENT: "pass the value through model.kwargs, which every stage and digest knows",
    Cause.HISTORY: "compute an answer from the inputs alone: let forward change no counter, cache or generator that answers depend on",
    Cause.PROCESS: "seed what the factory draws (numpy, random) from a keyword argument, and rely on no order of a set",
}


@dataclass
class Influences:
    """The findings with their causes, and what was tried: the lines that read the clock, and the values of variables."""

    findings: list[Finding] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def find(source_model: SourceModel, evidence: Evidence, *, timeout_s: float) -> Influences:
    """Ask eager a few cases again with other clocks, variables, earlier calls and processes."""
    rows = [place for place, case in enumerate(evidence.cases) if case.group == "rows"]
    places = sorted(rows, key=lambda place: sum(array.size for array in evidence.cases[place].inputs.values()))[:_CASES]
    search = _Search(source_model, evidence, places, timeout_s)
    try:
        return search.run()
    except BadInput as error:
        return Influences([Finding(KIND, "warning", f"hidden influences were not looked for: {error}")])


def add(found: Sequence[Finding], known: Sequence[Finding]) -> list[Finding]:
    """Both lists, without the finding that eager is random if an influence explains it."""
    explained = any(finding.severity == "error" for finding in found)
    return [*(finding for finding in known if not (explained and finding.kind == "random-forward")), *found]


class _Search:
    """One search: from the cheapest cause to those that need another process; it ends with the first one found that affects the others."""

    def __init__(self, source_model: SourceModel, evidence: Evidence, places: Sequence[int], timeout_s: float) -> None:
        self._source_model, self._evidence, self._timeout_s = source_model, evidence, timeout_s
        self._places = places
        self._inputs = [evidence.cases[place].inputs for place in places]
        self._now = time.time()
        self._found = Influences()

    def run(self) -> Influences:
        with self._child() as child:
            built, _, _ = child.call("reads")
            first = self._first(child)
            calls, changed = child.call("ask_often", self._inputs[0], _CALLS, _CALLS_S)
            last = self._ask(child)
            lines, variables, words = child.call("reads")
            self._found.facts = {"calls": calls, "clock": lines, "environment": {name: {} for name in variables}}
            if moved := self._moved(first, last):
                what = f"earlier calls: after {calls} calls, with the same seeds and time, {moved}"
                return self._add(Cause.HISTORY, what, changed)
            if self._clock(child, last):
                return self._found
        reference = [self._evidence.reference[place] for place in self._places]
        if self._moved(first, reference) and (moved := self._moved(first, self._fresh())):
            return self._add(Cause.PROCESS, f"the process: in a new one, with the same seeds, time and variables, {moved}", [])
        if built:
            self._built_later(first, built)
        self._environment(first, variables, words)
        return self._found

    def _first(self, child: Isolated) -> list[Arrays | str]:
        """The first answers; for a slow model, only the smallest case is asked, here and later."""
        began = time.monotonic()
        smallest = self._ask(child, inputs=self._inputs[:1])
        if time.monotonic() - began > _SLOW_S:
            self._places, self._inputs = self._places[:1], self._inputs[:1]
        return [*smallest, *self._ask(child, inputs=self._inputs[1:])]

    def _clock(self, child: Isolated, before: Sequence[Arrays | str]) -> bool:
        for words, shift in _LATER_S.items():
            if moved := self._moved(before, self._ask(child, shift)):
                self._add(Cause.CLOCK, f"the clock: {words}, {moved}", child.call("reads")[0])
                return True
        return False

    def _built_later(self, first: Sequence[Arrays | str], lines: Sequence[str]) -> None:
        for words, shift in _LATER_S.items():
            if moved := self._moved(first, self._fresh(shift=shift)):
                self._add(Cause.CLOCK, f"the clock: built {words}, {moved}", lines)
                return

    def _environment(
        self, first: Sequence[Arrays | str], variables: Mapping[str, Sequence[str]], words: Mapping[str, Sequence[str]]
    ) -> None:
        end = time.monotonic() + _VARIABLES_S
        for name, lines in list(variables.items())[:_VARIABLES]:
            now = os.environ.get(name)
            for value in _others(now, words[name]):
                if time.monotonic() > end:
                    self._found.facts["environment"].setdefault(name, {})["other values"] = "not tried for lack of time"
                    break
                other = self._fresh(variables={name: value})
                shown, was = ("unset" if item is None else repr(item) for item in (value, now))
                if isinstance(other, str):
                    self._found.facts["environment"].setdefault(name, {})[shown] = other
                    continue
                moved = self._moved(first, other)
                self._found.facts["environment"].setdefault(name, {})[shown] = moved or "the same answers"
                if moved:
                    self._add(Cause.ENVIRONMENT, f"the environment variable {name}: {shown} in place of {was}, {moved}", lines)
                    break

    def _fresh(self, *, shift: float = 0.0, variables: Mapping[str, str | None] | None = None) -> Any:
        """The answers of a new process, or the error message."""
        try:
            with self._child(shift, variables or {}) as child:
                return self._ask(child, shift)
        except BadInput as error:
            return str(error)

    def _child(self, shift: float = 0.0, variables: Mapping[str, str | None] | None = None) -> Isolated:
        arguments = (self._source_model, self._now + shift, dict(variables or {}))
        return Isolated("eager", InfluenceWorker, *arguments, timeout_s=self._timeout_s, environment=threads(1))

    def _ask(self, child: Isolated, shift: float = 0.0, *, inputs: Sequence[Batch] | None = None) -> list[Arrays | str]:
        return [child.call("ask", batch, self._now + shift) for batch in (self._inputs if inputs is None else inputs)]

    def _moved(self, one: Sequence[Arrays | str], two: Sequence[Arrays | str] | str) -> str:
        """A description of how the answers differ; empty if they differ by no more than rounding."""
        if isinstance(two, str):
            return f"there is no answer ({two})"
        for before, after in zip(one, two, strict=True):
            if isinstance(before, str) or isinstance(after, str):
                if before != after:
                    return f"forward fails ({after if isinstance(after, str) else before})"
                continue
            for name, array in before.items():
                if name not in after or after[name].shape != array.shape:
                    return f"output {name!r} has another shape"
                if words := self._apart(name, array, after[name]):
                    return words
        return ""

    def _apart(self, name: str, before: Any, after: Any) -> str:
        noise = self._evidence.noise[ROWS][name]
        distances = differences.elementwise_distance(before, after)
        limit = min(_NOISES * noise.largest, _COARSEST * noise.scale) + _ROUNDING * np.abs(np.nan_to_num(differences.wide(before)))
        if not (distances > (limit if before.dtype.kind == "f" else 0)).any():
            return ""
        size = float(distances.max()) / noise.scale if noise.scale else float("inf")
        return f"output {name!r} differs by {size:.2g} of its largest value"

    def _add(self, cause: Cause, what: str, lines: Iterable[str]) -> Influences:
        places = list(lines)
        more = f" (also read at {', '.join(places[1:3])})" if len(places) > 1 else ""
        where = places[0] if places else None
        self._found.findings.append(Finding(KIND, "error", f"the answers change with {what}{more}", _ADVICE[cause], where))
        self._found.causes.append(cause)
        return self._found


def _others(now: str | None, words: Iterable[str]) -> list[str | None]:
    """Values that a variable gets instead of `now`: none, other numbers, and strings of the function that reads it."""
    texts = list(words)
    numbers = [float(text) for text in (now, *texts) if text is not None and _is_number(text)]
    raised = [f"{number + 1:g}" for number in numbers[:1]]
    values = [None, *raised, *(text for text in texts if not _is_number(text)), "1", "0"]
    return [value for value in dict.fromkeys(values) if value != now][:_VALUES]


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


class InfluenceWorker:
    """The object in the child process: eager float32 with a fake clock and environment."""

    def __init__(self, source_model: SourceModel, now: float, variables: Mapping[str, str | None]) -> None:
        self._real_time = time.perf_counter
        self._circumstances = Circumstances(
            now, variables=variables, package=source_model.model.factory.partition(":")[0].partition(".")[0]
        )
        self._now = now
        self._circumstances.install()
        self._eager = Eager(source_model)

    def ask(self, inputs: Batch, now: float) -> Arrays | str:
        """The answer at a time, with all generators seeded, or the error message."""
        import paddle

        paddle.seed(0)
        random.seed(0)
        np.random.seed(0)
        self._circumstances.set_clock(now)
        try:
            return self._eager.run(inputs)
        except ModelError as refusal:
            return str(refusal)

    def ask_often(self, inputs: Batch, calls: int, seconds: float) -> tuple[int, list[str]]:
        """Call the model again and again. Returns the number of calls, and the user's lines that change the model's state."""
        state, end, count = State.of(self._eager.layer), self._real_time() + seconds, 0
        while count < calls and self._real_time() < end:
            self.ask(inputs, self._now)
            count += 1
        return count, state.changes(self._eager.layer)

    def reads(self) -> tuple[list[str], dict[str, list[str]], dict[str, list[str]]]:
        """The lines that read the clock so far, those that read each environment variable, and strings that may be its values."""
        seen = self._circumstances
        variables, words = ({name: list(found) for name, found in table.items()} for table in (seen.variables, seen.words))
        return list(seen.clock), variables, words
