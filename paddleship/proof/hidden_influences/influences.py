"""Find hidden influences on the eager model's answers: the clock, the host, files, variables, earlier calls, the process.

A few small cases are asked again in separate processes in which the clock stands still and every random generator is seeded before each
call, so that a difference has one cause. Each source that the user's code reads gets other values, in a new process if it was read
while the model was built. If an answer moves, this is an error. If none does, a read during forward is a warning with its line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.errors import BadInput
from paddleship.model.eager import SourceModel
from paddleship.numerics import differences
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.proof.hidden_influences import alternatives
from paddleship.proof.hidden_influences.influence_worker import InfluenceWorker
from paddleship.proof.hidden_influences.sources import Cause, Read, Setting
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.system.isolate import Isolated, threads

KIND = "hidden-influence"

_CASES = 3
_SLOW_S = 0.5  # if the first answer to the smallest case takes longer, no other case is asked
_CALLS, _CALLS_S = 100, 2.0  # calls in between, and their time limit
_VARIABLES = 6  # environment variables that are tried
_TRIES_S = 60  # then no other value is tried
_NAMED = 3  # lines or names in a message

_ROUNDING, _NOISES, _COARSEST = 1e-5, 4, 1e-3  # of a value, of eager's noise, and of the size of an output

_INPUT = "take the value as an input of the model, so that it is declared, compared and sent by the client"
_KWARGS = "pass the value as an argument of the factory, which every digest covers (in params.yaml: model.kwargs)"
_ADVICE = {
    Cause.CLOCK: "take the time as an input of the model, so that it is declared, compared and sent by the client",
    Cause.ZONE: "name the time zone in the code, or take the local time as an input of the model",
    Cause.LOCALE: "name the locale or the encoding in the code",
    Cause.ENVIRONMENT: _KWARGS,
    Cause.CPUS: _KWARGS,
    Cause.HOST: _KWARGS,
    Cause.IDENTITY: _INPUT,
    Cause.THREADS: _KWARGS,
    Cause.FILES: "read the file in the constructor, into a buffer or a parameter that the checkpoint holds",
    Cause.RANDOM: "draw from Paddle's generator, and not in evaluation mode",
    Cause.ARGUMENTS: _KWARGS,
    Cause.INTERPRETER: _KWARGS,
    Cause.OUTSIDE: _INPUT,
    Cause.HISTORY: "compute an answer from the inputs alone: let forward change no counter, cache or generator that answers depend on",
    Cause.PROCESS: "seed what the factory draws (numpy, random) from a keyword argument, and rely on no order of a set",
}


@dataclass
class Influences:
    """The findings with the causes of the errors, and what was read and tried."""

    findings: list[Finding] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def find(source_model: SourceModel, evidence: Evidence, *, timeout_s: float) -> Influences:
    """Ask eager a few cases again with other clocks, variables, earlier calls and processes."""
    rows = [index for index, case in enumerate(evidence.cases) if case.group == "rows"]
    indices = sorted(rows, key=lambda index: sum(array.size for array in evidence.cases[index].inputs.values()))[:_CASES]
    search = _Search(source_model, evidence, indices, timeout_s)
    try:
        return search.run()
    except BadInput as error:
        return Influences([Finding(KIND, "warning", f"hidden influences were not looked for: {error}")])


def add(influences: Sequence[Finding], known: Sequence[Finding]) -> list[Finding]:
    """Both lists, without the finding that eager is random if an influence explains it."""
    explained = any(finding.severity == "error" for finding in influences)
    return [*(finding for finding in known if not (explained and finding.kind == "random-forward")), *influences]


class _Search:
    """One search: from the cheapest cause to those that need another process; it ends at the first that affects the others."""

    def __init__(self, source_model: SourceModel, evidence: Evidence, indices: Sequence[int], timeout_s: float) -> None:
        self._source_model, self._evidence, self._timeout_s = source_model, evidence, timeout_s
        self._indices = indices
        self._inputs = [evidence.cases[index].inputs for index in indices]
        self._usual = Setting(time.time())
        self._end = time.monotonic() + timeout_s
        self._influences = Influences()
        self._tried: dict[str, dict[str, str]] = {}

    def run(self) -> Influences:
        reads, stopped = self._forward()
        if not stopped:
            self._environment(reads)
        self._warn(reads)
        self._influences.facts |= {"read": _where(reads, in_forward=True), "read_while_built": _where(reads, in_forward=False)}
        self._influences.facts["tried"] = self._tried
        return self._influences

    def _forward(self) -> tuple[list[Read], bool]:
        """All reads, and whether an influence was found that affects all other tries."""
        with self._child(self._usual) as child:
            first = self._first(child)
            calls, changed, read_again = child.call("ask_often", self._inputs[0], self._usual, _CALLS, _CALLS_S)
            last = self._ask(child)
            reads = child.call("reads")
            self._influences.facts["calls"] = calls
            if moved := self._moved(first, last):
                random = [read.where for read in reads if read.cause is Cause.RANDOM and read.in_forward]
                cause = Cause.RANDOM if random and not changed else Cause.HISTORY
                source = f"the {cause}" if cause is Cause.RANDOM else "earlier calls"
                self._add(cause, f"{source}: after {calls} calls, with the same seeds and time, {moved}", [*changed, *random])
                return reads, True
            self._warn_of_state(read_again, calls)
            self._end = time.monotonic() + _TRIES_S
            child.call("forget")
            if self._clock(child, last, reads):
                return reads, True
            self._others(child, last, reads)
            again = {read.cause for read in child.call("reads")}
        reference = [self._evidence.reference[index] for index in self._indices]
        if self._influences.causes:
            return reads, True  # what moves the answers moves them in new processes too, so these show no further cause
        if self._moved(first, reference) and (moved := self._moved(first, self._fresh(self._usual))):
            self._add(Cause.PROCESS, f"the process: in a new one, with the same seeds, time and variables, {moved}", [])
            return reads, True
        self._first_answers = first
        self._built(first, reads, again)
        return reads, False

    def _first(self, child: Isolated) -> list[Arrays | str]:
        """The first answers; for a slow model, only the smallest case is asked, here and later."""
        began = time.monotonic()
        smallest = self._ask(child, inputs=self._inputs[:1], observed=True)
        if time.monotonic() - began > _SLOW_S:
            self._indices, self._inputs = self._indices[:1], self._inputs[:1]
        return [*smallest, *self._ask(child, inputs=self._inputs[1:], observed=True)]

    def _clock(self, child: Isolated, before: Sequence[Arrays | str], reads: Sequence[Read]) -> bool:
        """Try later times, read or not, because a library may read the clock; and many more if the user's code reads it."""
        later = [(text, replace(self._usual, now=self._usual.now + shift)) for text, shift in alternatives.LATER_S.items()]
        more = alternatives.of(Cause.CLOCK, reads, self._usual) if _of(reads, Cause.CLOCK) else []
        return self._try(Cause.CLOCK, later, child, before, reads) or self._try(Cause.CLOCK, more, child, before, reads, few=True)

    def _others(self, child: Isolated, before: Sequence[Arrays | str], reads: Sequence[Read]) -> None:
        """Try other values of the other sources; local time also depends on the time zone."""
        zone = [Cause.ZONE] if _of(reads, Cause.CLOCK) else []
        for cause in dict.fromkeys([*_causes(reads), *zone]):
            if cause is not Cause.CLOCK:
                self._try(cause, alternatives.of(cause, reads, self._usual), child, before, reads)

    def _try(
        self,
        cause: Cause,
        tries: Sequence[alternatives.Alternative],
        child: Isolated | None,
        before: Sequence[Arrays | str],
        reads: Sequence[Read],
        *,
        few: bool = False,
    ) -> bool:
        """Whether the answers change with one of these settings, in this process, or in new ones without `child`; `few`: of one case."""
        tried = self._tried.setdefault(cause, {})
        for text, setting in tries:
            if time.monotonic() > self._end:
                tried["others"] = "not tried for lack of time"
                return False
            if child is None:
                answers, text = self._fresh(setting), f"built {text}"
            else:
                answers = self._ask(child, setting, inputs=self._inputs[:1] if few else None)
            if isinstance(answers, str) or (moved := self._moved(before[: len(answers)], answers, failures=cause is Cause.CLOCK)) is None:
                tried[text] = answers if isinstance(answers, str) else "forward fails"
                continue
            tried[text] = moved or "the same answers"
            if moved:
                mine = sorted(_of(reads, cause) or _of(reads, Cause.CLOCK), key=lambda read: read.in_forward is (child is None))
                self._add(cause, f"the {cause}: {text}, {moved}", [read.where for read in mine])
                return True
        return False

    def _built(self, first: Sequence[Arrays | str], reads: Sequence[Read], again: set[Cause]) -> None:
        """Build the model again for sources that were read once: while it was built, or at the first call."""
        once = [read for read in reads if not read.in_forward or read.cause not in again]
        for cause in _causes(once):
            if cause not in self._influences.causes and cause is not Cause.FILES:  # a constructor reads weights and vocabularies from files
                self._try(cause, alternatives.of(cause, once, self._usual, built=True), None, first, once)

    def _environment(self, reads: Sequence[Read]) -> None:
        names = list(dict.fromkeys(read.what for read in _of(reads, Cause.ENVIRONMENT)))
        for name in names[:_VARIABLES]:
            mine = [read for read in _of(reads, Cause.ENVIRONMENT) if read.what == name]
            now = os.environ.get(name)
            texts = dict.fromkeys(word for read in mine for word in read.texts if word != name)
            for value in alternatives.values(now, texts):
                shown, was = ("unset" if item is None else repr(item) for item in (value, now))
                setting = replace(self._usual, variables=((name, value),))
                if self._variable(name, f"{shown} in place of {was}", setting, mine):
                    break

    def _variable(self, name: str, text: str, setting: Setting, reads: Sequence[Read]) -> bool:
        tried = self._tried.setdefault(Cause.ENVIRONMENT, {})
        if time.monotonic() > self._end:
            tried["others"] = "not tried for lack of time"
            return False
        other = self._fresh(setting)
        unset = dict(setting.variables)[name] is None  # a text that code cannot read changes no answer
        moved = "" if isinstance(other, str) else self._moved(self._first_answers, other, failures=unset)
        failed = other if isinstance(other, str) else "forward fails" if moved is None else ""
        tried[f"{name} {text}"] = failed or moved or "the same answers"
        if moved:
            self._add(Cause.ENVIRONMENT, f"the environment variable {name}: {text}, {moved}", [read.where for read in reads])
        return bool(moved)

    def _warn(self, reads: Sequence[Read]) -> None:
        """Name the sources that forward reads although no answer moved."""
        for cause in _causes([read for read in reads if read.in_forward]):
            mine = [read for read in _of(reads, cause) if read.in_forward]
            if cause in self._influences.causes:
                continue
            tries = sum(result == "the same answers" for result in self._tried.get(cause, {}).values())
            outcome = f"the answers stayed the same in {tries} tries with other values" if tries else "no other value was tried"
            names = list(dict.fromkeys(read.what for read in mine))
            what = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
            lines = [read.where for read in mine]
            message = f"forward reads the {cause} ({what}), which is no input of the model; {outcome}{_also(lines)}"
            self._influences.findings.append(Finding(KIND, "warning", message, _ADVICE[cause], lines[0]))

    def _warn_of_state(self, changed: Sequence[str], calls: int) -> None:
        """Name the lines of state that changes and is read, although no answer moved, because that of a later call may."""
        if changed:
            message = "forward reads what it changed in earlier calls, which is no input of the model; "
            message += f"the answers stayed the same in {calls} calls, and later ones were not tried{_also(changed)}"
            self._influences.findings.append(Finding(KIND, "warning", message, _ADVICE[Cause.HISTORY], changed[0]))

    def _fresh(self, setting: Setting) -> Any:
        """The answers of a new process, or the error message."""
        try:
            with self._child(setting) as child:
                return self._ask(child, setting)
        except BadInput as error:
            return str(error)

    def _child(self, setting: Setting) -> Isolated:
        return Isolated("eager", InfluenceWorker, self._source_model, setting, timeout_s=self._timeout_s, environment=threads(1))

    def _ask(
        self, child: Isolated, setting: Setting | None = None, *, inputs: Sequence[Batch] | None = None, observed: bool = False
    ) -> list[Arrays | str]:
        batches = self._inputs if inputs is None else inputs
        return [child.call("ask", batch, setting or self._usual, observed) for batch in batches]

    def _moved(self, one: Sequence[Arrays | str], two: Sequence[Arrays | str] | str, *, failures: bool = True) -> Any:
        """A description of how the answers differ; empty if they differ by no more than rounding. None: forward fails, if that may be."""
        if isinstance(two, str):
            return f"there is no answer ({two})"
        for before, after in zip(one, two, strict=True):
            if isinstance(before, str) or isinstance(after, str):
                if before != after:
                    return f"forward fails ({after if isinstance(after, str) else before})" if failures else None
                continue
            for name, array in before.items():
                if name not in after or after[name].shape != array.shape:
                    return f"output {name!r} has another shape"
                if difference := self._difference(name, array, after[name]):
                    return difference
        return ""

    def _difference(self, name: str, before: Any, after: Any) -> str:
        noise = self._evidence.noise[ROWS][name]
        distances = differences.elementwise_distance(before, after)
        limit = min(_NOISES * noise.largest, _COARSEST * noise.scale) + _ROUNDING * np.abs(np.nan_to_num(differences.wide(before)))
        if not (distances > (limit if before.dtype.kind == "f" else 0)).any():
            return ""
        size = float(distances.max()) / noise.scale if noise.scale else float("inf")
        return f"output {name!r} differs by {size:.2g} of its largest value"

    def _add(self, cause: Cause, what: str, lines: Iterable[str]) -> None:
        distinct = list(dict.fromkeys(lines))
        message = f"the answers change with {what}{_also(distinct)}"
        self._influences.findings.append(Finding(KIND, "error", message, _ADVICE[cause], distinct[0] if distinct else None))
        self._influences.causes.append(cause)


def _also(lines: Iterable[str]) -> str:
    others = list(dict.fromkeys(lines))[1:_NAMED]
    return f" (also read at {', '.join(others)})" if others else ""


def _of(reads: Iterable[Read], cause: Cause) -> list[Read]:
    return [read for read in reads if read.cause is cause]


def _causes(reads: Sequence[Read]) -> list[Cause]:
    read_causes = {read.cause for read in reads}
    return [cause for cause in Cause if cause in read_causes]


def _where(reads: Sequence[Read], *, in_forward: bool) -> dict[str, list[str]]:
    mine = [read for read in reads if read.in_forward is in_forward]
    return {cause: list(dict.fromkeys(f"{read.what} at {read.where}" for read in _of(mine, cause))) for cause in _causes(mine)}
