"""Run the eager model case by case in a child process, which is restarted after a crash."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from paddleship.config.sections.model import Input, Model
from paddleship.doctor.eager_probe import ProbeResult, ProbeWorker
from paddleship.errors import BadInput, CandidateError, ProcessDied, ProcessHung
from paddleship.model.eager import SourceModel
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import batch_dimension, row_dimensions
from paddleship.system import isolate

EAGER = "the eager model"  # name of its process in messages
MAX_CRASHES = 3  # of eager; then no new case is tried
_WATCHED = 0.5  # share of the time of a call in which its lines are observed, which makes it slow
_FEW = 2  # most rows of a case that is run on a slow model
_SMALL = 16  # values that are printed in full


class NotSurvivedError(BadInput):
    """The eager model crashes on every case; `case` is the first one, `end` how the process ended."""

    def __init__(self, case: Case, end: ProcessDied | ProcessHung) -> None:
        super().__init__(str(end), where=end.where)
        self.case, self.end = case, end


def examine(
    source_model: SourceModel, cases: Sequence[Case], *, timeout_s: float, budget_s: float = math.inf, max_crashes: int = MAX_CRASHES
) -> ProbeResult:
    """Run the eager model on the cases; after `budget_s` only on small ones, after `max_crashes` crashes only on cases that worked before.

    Raises NotSurvivedError, and ModelError when it answers none.
    """
    crashes: dict[str, ProcessDied | ProcessHung] = {}
    survived: set[str] = set()
    while True:
        late = len(crashes) >= max_crashes
        left = [case for case in cases if case.name not in crashes and (case.name in survived or not late)]
        if not left:
            raise NotSurvivedError(*_worst(crashes, cases))
        with isolate.Isolated(EAGER, ProbeWorker, source_model, timeout_s=timeout_s, environment=isolate.threads(1)) as worker:
            if findings := worker.call("inspect"):
                return ProbeResult(findings)
            skipped_slow, end = _ask(worker, left, survived, budget_s, watched_s=timeout_s * _WATCHED)
            if end is not None:
                crashes[end[0]] = end[1]
                continue
            probed: ProbeResult = worker.call("conclude")
            unused, influence_unknown = _without_influence(worker, [item.name for item in source_model.model.inputs])
            tried = {case.name for case in left} | crashes.keys()
            skipped = tuple(case.name for case in cases if case.name not in tried)
            return replace(
                probed,
                unused=unused,
                influence_unknown=influence_unknown,
                crashes=crashes,
                skipped_after_crashes=skipped,
                skipped_slow=tuple(skipped_slow),
            )


def _worst(crashes: Mapping[str, ProcessDied | ProcessHung], cases: Sequence[Case]) -> tuple[Case, ProcessDied | ProcessHung]:
    """A case that ended the process; one that lasted too long only if no other did."""
    ends = [(case, crashes[case.name]) for case in cases if case.name in crashes]
    return next((end for end in ends if isinstance(end[1], ProcessDied)), ends[0])


def bounded(model: Model) -> Model | None:
    """The model with every integer per row that may be a length limited to the size of the first dynamic dimension; None without one."""
    specs = [item.spec() for item in model.inputs]
    sizes = row_dimensions(specs)
    changed = [_bounded(item, sizes[0], batch_dimension(specs)) if sizes else item for item in model.inputs]
    return model.model_copy(update={"inputs": changed}) if changed != model.inputs else None


def answered(probed: ProbeResult | BadInput, cases: Sequence[Case]) -> int:
    """The number of row cases that the eager model answered."""
    return sum(case.group == "rows" and case.name in probed.answers for case in cases) if isinstance(probed, ProbeResult) else 0


def all_answered(probed: ProbeResult | BadInput, cases: Sequence[Case]) -> bool:
    """Whether eager answered every row case; also true if it ran none because of its structure."""
    if not isinstance(probed, ProbeResult):
        return False
    failed = {*probed.crashes, *probed.refused, *probed.skipped_after_crashes}
    return not any(case.group == "rows" and case.name in failed for case in cases)


def show(inputs: Batch) -> str:
    """The inputs as text: names, dtypes, shapes, ranges, and small values in full."""
    return "; ".join(f"{name} {array.dtype}{list(array.shape)} {_values(array)}".rstrip() for name, array in inputs.items())


def _bounded(item: Input, dimension: str, batch: str | None) -> Input:
    length = item.dtype in ("int32", "int64") and item.shape in ([batch], []) and not isinstance(item.high, str)
    if not length:
        return item
    low = item.low if isinstance(item.low, float) and item.low > 0 else 1.0
    return item.model_copy(update={"low": low, "high": dimension})


def _ask(
    worker: isolate.Isolated, cases: Sequence[Case], survived: set[str], budget_s: float, *, watched_s: float
) -> tuple[list[str], tuple[str, ProcessDied | ProcessHung] | None]:
    """The cases that were skipped for lack of time, and the case that ended the process, with how it ended."""
    began, skipped_slow = time.monotonic(), list[str]()
    for case in cases:
        if time.monotonic() - began > budget_s and _rows(case) > _FEW:
            skipped_slow.append(case.name)
            continue
        try:
            worker.call("ask", case, watched_s)
            survived.add(case.name)
        except (ProcessDied, ProcessHung) as end:
            return skipped_slow, (case.name, end)
    return skipped_slow, None


def _rows(case: Case) -> int:
    return max((array.shape[0] for array in case.inputs.values() if array.ndim), default=1)


def _without_influence(worker: isolate.Isolated, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inputs that change no output, and inputs for which this is unknown: the model does not survive values that were not declared."""
    influences: dict[str, bool | None] = {}
    with suppress(CandidateError):
        for name in names if len(names) > 1 else ():
            influences[name] = worker.call("influence", name, False)
        for name in [name for name, influence in influences.items() if influence is None]:
            influences[name] = worker.call("influence", name, True)
    unused = tuple(name for name, influence in influences.items() if influence is False)
    return unused, tuple(name for name, influence in influences.items() if influence is None)


def _values(array: np.ndarray[Any, Any]) -> str:
    if not array.size:
        return "(empty)"
    if array.size <= _SMALL and array.dtype.kind != "f":
        return str(array.tolist())
    if array.dtype.kind == "b":
        return f"{array.mean():.0%} true"
    return f"{array.min():g} to {array.max():g}"
