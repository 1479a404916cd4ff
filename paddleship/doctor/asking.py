"""The eager model asked case by case in a process of its own, which is started again after a case that it does not survive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paddleship import isolate
from paddleship.doctor.habits import Checkup, Patient
from paddleship.eager import Subject
from paddleship.errors import BadInput, CandidateError, ProcessDied, ProcessHung
from paddleship.preprocess import Batch
from paddleship.proof.inputs import Case

EAGER = "the eager model"  # as its process is called
_DEATHS = 3  # after which no further case is tried
_SMALL = 16  # values that are shown in full


class NotSurvivedError(BadInput):
    """The eager model survives none of the cases; `case` is the one that it was asked first, `end` how its process ended."""

    def __init__(self, case: Case, end: ProcessDied | ProcessHung) -> None:
        super().__init__(str(end), where=end.where)
        self.case, self.end = case, end


def examine(subject: Subject, cases: Sequence[Case], *, timeout_s: float) -> Checkup:
    """What the eager model shows when it is asked these cases. Raises NotSurvivedError, and ModelError when it answers none."""
    deadly: dict[str, ProcessDied | ProcessHung] = {}
    survived: set[str] = set()
    while True:
        late = len(deadly) >= _DEATHS
        left = [case for case in cases if case.name not in deadly and (case.name in survived or not late)]
        if not left:
            raise NotSurvivedError(next(case for case in cases if case.name in deadly), next(iter(deadly.values())))
        with isolate.Isolated(EAGER, Patient, subject, timeout_s=timeout_s) as patient:
            if findings := patient.call("look"):
                return Checkup(findings)
            if (end := _ask(patient, left, survived)) is not None:
                deadly[end[0]] = end[1]
                continue
            checkup: Checkup = patient.call("conclude")
            unused, untold = _without_influence(patient, [item.name for item in subject.model.inputs])
            gone = tuple(case.name for case in cases if case not in left and case.name not in deadly)
            return replace(checkup, unused=unused, untold=untold, deadly=deadly, unasked=gone)


def show(inputs: Batch) -> str:
    """The inputs in words: names, dtypes, shapes, ranges, and small ones in full."""
    return "; ".join(f"{name} {array.dtype}{list(array.shape)} {_values(array)}".rstrip() for name, array in inputs.items())


def _ask(patient: isolate.Isolated, cases: Sequence[Case], survived: set[str]) -> tuple[str, ProcessDied | ProcessHung] | None:
    """The case that the process did not survive, with the words of its end."""
    for case in cases:
        try:
            patient.call("ask", case)
            survived.add(case.name)
        except (ProcessDied, ProcessHung) as end:
            return case.name, end
    return None


def _without_influence(patient: isolate.Isolated, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inputs that change no output, and those of which that cannot be told."""
    unused: list[str] = []
    untold: list[str] = []
    for name in names if len(names) > 1 else ():
        try:
            influence = patient.call("influence", name)
        except CandidateError:
            return tuple(unused), tuple(untold)  # it died of values that nobody declared
        if influence is None:
            untold.append(name)
        elif not influence:
            unused.append(name)
    return tuple(unused), tuple(untold)


def _values(array: np.ndarray[Any, Any]) -> str:
    if not array.size:
        return "(empty)"
    if array.size <= _SMALL and array.dtype.kind != "f":
        return str(array.tolist())
    if array.dtype.kind == "b":
        return f"{array.mean():.0%} true"
    return f"{array.min():g} to {array.max():g}"
