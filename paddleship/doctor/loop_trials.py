"""Find a value that a loop over a tensor cannot hold: None, a Python number or an attribute of self.

Paddle fails on them with errors about something else, or makes a program that answers wrongly. Such a value is harmless in a loop that
is unrolled: it is the cause if the model, with the value replaced, converts and answers as eager does, which it does not as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddleship.conversion import exporting
from paddleship.doctor import loop_rewrites, memory
from paddleship.doctor.ast_lint import Suspect
from paddleship.doctor.loop_rewrites import FIRST_STEP, LOCAL, TENSOR, VALUE_AGAIN
from paddleship.doctor.loop_values import NONE, NUMBER, ON_SELF
from paddleship.doctor.size_reads import Answered
from paddleship.errors import BadInput
from paddleship.model.eager import Eager, SourceModel
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import isolate

PATTERNS = frozenset({NONE, NUMBER, ON_SELF})

_MOST_TRIALS = 8  # each is a conversion in a process of its own, of seconds for a small model
_ORDER = ((NUMBER, TENSOR), (ON_SELF, LOCAL), (NONE, FIRST_STEP), (NUMBER, FIRST_STEP))  # from the smallest change to the largest
_RIGHT = {
    TENSOR: "with a tensor there",
    LOCAL: "with a local variable instead",
    FIRST_STEP: "with the first step of the loop written before it",
}


@dataclass(frozen=True)
class _Trial:
    """Suspects that one rewrite replaces, and the files as it writes them."""

    form: str
    suspects: tuple[Suspect, ...]
    sources: Mapping[str, str]


def find(
    source_model: SourceModel, described: Candidate, suspects: Sequence[Suspect], answered: Sequence[Answered], *, timeout_s: float
) -> list[Finding]:
    """A finding for each suspect of the first rewrite with which the model is right; none if it is right as it is.

    `described` is the candidate of the exported program, with eager's outputs.
    """
    trials = list(_trials(suspects))[:_MOST_TRIALS]
    model = _Rewritten(source_model, described, answered, timeout_s)
    if not trials or model.right({}):
        return []
    for trial in trials:
        if not model.right(trial.sources):
            continue
        if causes := [one for one in trial.suspects if trial.form != FIRST_STEP or model.harmed_by(one)]:
            return _findings(trial.form, causes)
    return []


@dataclass(frozen=True)
class _Rewritten:
    """The model with rewritten sources, each time in a process of its own."""

    source_model: SourceModel
    described: Candidate
    answered: Sequence[Answered]
    timeout_s: float

    def right(self, sources: Mapping[str, str]) -> bool:
        """Whether the program answers as eager does with the user's own source."""
        return bool(self._run(_answers, self.described, self.answered, sources))

    def harmed_by(self, suspect: Suspect) -> bool:
        """Whether the program is wrong if of all values only this one enters the loop as it did; the first step may hide other causes."""
        sources = {suspect.file: loop_rewrites.rewritten(suspect.file, [(suspect, VALUE_AGAIN)])}
        answered: list[Answered] | None = self._run(_ask_eager, self.answered, sources)
        return not answered or not self._run(_answers, self.described, answered, sources)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return isolate.run("a trial", function, self.source_model, *arguments, timeout_s=self.timeout_s)
        except BadInput:
            return None


def _trials(suspects: Sequence[Suspect]) -> Iterator[_Trial]:
    """One for each different rewrite of a suspect, then one for all suspects of a pattern."""
    alone: dict[tuple[tuple[str, str], ...], _Trial] = {}
    for pattern, form in _ORDER:
        for suspect in [suspect for suspect in suspects if suspect.pattern == pattern]:
            sources = {suspect.file: loop_rewrites.rewritten(suspect.file, [(suspect, form)])}
            key = tuple(sources.items())
            before = alone.get(key, _Trial(form, (), sources))
            alone[key] = replace(before, suspects=(*before.suspects, suspect))
    yield from alone.values()
    for pattern, form in _ORDER:
        members = tuple(one for one in suspects if one.pattern == pattern)
        if len(members) > 1:
            files = {one.file for one in members}
            sources = {file: loop_rewrites.rewritten(file, [(one, form) for one in members if one.file == file]) for file in files}
            if tuple(sources.items()) not in alone:
                yield _Trial(form, members, sources)


def _ask_eager(source_model: SourceModel, answered: Sequence[Answered], sources: Mapping[str, str]) -> list[Answered]:
    """Eager's own answers with these sources, without cases on which it fails. For a child process."""
    loop_rewrites.import_rewritten(sources)
    eager, again = Eager(source_model), list[Answered]()
    for one in answered:
        with suppress(BadInput):
            again.append(Answered(one.inputs, eager.run(one.inputs)))
    return again


def _answers(source_model: SourceModel, described: Candidate, answered: Sequence[Answered], sources: Mapping[str, str]) -> bool:
    """Whether the model with these sources converts and answers as eager does. For a child process."""
    loop_rewrites.import_rewritten(sources)
    with tempfile.TemporaryDirectory() as work, suppress(Exception):  # of the conversion, and of the runtime
        program = exporting.save_program(source_model, Path(work), described.inputs)
        replace(described, weights_sha256=program.weights, sources=program.sources).save(Path(work))
        runtime = runtimes.load(Path(work))
        return all(memory.same(one.right, runtime.run(one.inputs)) for one in answered)
    return False


def _findings(form: str, causes: Sequence[Suspect]) -> list[Finding]:
    """One for each line; of a first step that is taken out, which replaces all values of its loop, one at the first line."""
    if form == FIRST_STEP:
        return [_finding(form, causes)]
    return [_finding(form, [one for one in causes if one.where == where]) for where in dict.fromkeys(one.where for one in causes)]


def _finding(form: str, suspects: Sequence[Suspect]) -> Finding:
    first = suspects[0]
    others = dict.fromkeys(f"{one.name!r}, line {one.line}" for one in suspects[1:] if one.name != first.name)
    also = f" (as is {'; '.join(others)})" if others else ""
    effect = f"{_RIGHT[form]}, the model converts and answers as eager does ({first.text})"
    if form == LOCAL:
        message = f"{first.name!r} is filled or assigned in a loop over a tensor{also}, which the conversion does not support: {effect}"
        local = first.name.removeprefix("self.")
        advice = f"use a local list or tensor in the loop ({local}, not {first.name}), and return it if it is needed"
    elif first.pattern == NONE:
        message = (
            f"{first.name!r} is None before a loop that assigns a tensor to it{also}, which a loop over a tensor does not support: {effect}"
        )
        advice = (
            "start with a tensor of the same rank and dtype, of size 0 where the loop makes it grow (such as paddle.zeros([n, 0, 4])), or "
            "write the first step before the loop"
        )
    else:
        message = f"{first.name!r} is a Python number before a loop that makes it a tensor{also}, of another dtype or shape: {effect}"
        advice = _start(first) if form == TENSOR else "start with a tensor of the dtype and shape that the loop gives it, not with a number"
    return Finding("loop-value", "error", message, advice, first.where)


def _start(suspect: Suspect) -> str:
    return f"write {suspect.name} = {loop_rewrites.tensor_start(suspect)} (of the dtype that the loop gives it)"
