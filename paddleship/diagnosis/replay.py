"""Run every sublayer alone in the candidate's runtime, with the inputs that the eager model gave it, to find the first wrong answer.

Outputs inside the whole program would change what the runtime fuses and could hide the error. So each sublayer is exported alone,
converted like the candidate, and compared with its own float64 answer. The error is max|x - truth| over the largest |truth|, as in
evidence; `noise` is eager float32's own, at least NOISE_FLOOR for a sublayer, whose rounding may be tiny by chance, and for the model
itself at least the noise of the proof.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.catalogue import PROGRAM
from paddleship.diagnosis.recording import Call, Recorder, inputs_of
from paddleship.diagnosis.sublayers import ExportWorker
from paddleship.errors import CandidateError
from paddleship.model.eager import SourceModel
from paddleship.numerics import differences
from paddleship.proof.evidence import EPSILON, NOISE_FLOOR
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import PRUNED
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate
from paddleship.system.isolate import Revived

_PER_LAYER_S = 60.0
_PLAIN = {"optimization_level": 0}
_EPSILONS = {"tf32": 2.0**-10, "bfloat16": 2.0**-7, "float16": 2.0**-10, "int8": 2.0**-7, PRUNED: 2.0**-2}


@dataclass(frozen=True)
class LayerError:
    """The errors of one sublayer alone, relative to the size of its answer; None if it could not run (`reason`).

    `candidate` is infinite if it died, or answered with NaN or in another form; `reason` says which. `reference` is eager float32's own
    error, `noise` the error that counts as such. `dead`: it could not be converted, or its process died.
    """

    call: Call
    candidate: float | None = None
    noise: float = NOISE_FLOOR
    reason: str = ""
    reference: float = 0.0
    dead: bool = False

    @property
    def ratio(self) -> float | None:
        """The candidate's error in units of eager's own."""
        return None if self.candidate is None else self.candidate / self.noise

    def adds_up(self, limit: float, coarse: float) -> bool:
        """Whether the error of the model itself is no larger than a sublayer's may be, so that no line or layer is the cause."""
        return self.call.parent is None and self.candidate is not None and self.candidate <= limit * NOISE_FLOOR * coarse

    def __str__(self) -> str:
        return f"{self.ratio:.3g} × eager's noise" if self.ratio is not None and not self.reason else self.reason


@dataclass(frozen=True)
class Located:
    """The errors of all sublayers, and the findings from them."""

    errors: list[LayerError]
    findings: list[Finding]


def locate(
    source_model: SourceModel,
    batch: Batch,
    *,
    candidate: Candidate,
    work: Path,
    limit: float,
    timeout_s: float,
    other: Batch | None = None,
    floor: float = EPSILON,
    say: Callable[[str], None] = lambda _: None,
    unmade: bool = False,
) -> Located:
    """Run every sublayer alone, the model itself first and then deeper, until `timeout_s` is over; find the first wrong one.

    `candidate` has runtime, options and threads; `other` is a batch of other sizes, for the dynamic axes; `limit` is a noise ratio, `floor`
    the least noise of the model itself. `unmade`: the candidate could not be made, so sublayers that cannot be made are searched, not wrong
    ones. The errors are in the order in which the sublayers are called.
    """
    deadline = time.monotonic() + timeout_s
    work.mkdir(parents=True, exist_ok=True)
    with isolate.Isolated("the recording", Recorder, source_model, work, timeout_s=timeout_s, environment=isolate.threads(1)) as recorder:
        calls: list[Call] = recorder.call("truth", recorder.call("record", batch, other))
    with ExitStack() as stack:
        exporter = stack.enter_context(Revived("the export of sublayers", ExportWorker, source_model, work, timeout_s=_PER_LAYER_S))
        environment = isolate.threads(candidate.threads)
        replayer = stack.enter_context(Revived(candidate.name, ReplayWorker, work, timeout_s=_PER_LAYER_S, environment=environment))
        setup = ReplaySetup(exporter, replayer, candidate, work, floor)
        errors: dict[int, LayerError] = {}
        for call in sorted(calls, key=lambda call: (_depth(call, calls), call.number)):
            late = time.monotonic() > deadline
            errors[call.number] = LayerError(call, reason=f"no time left of {timeout_s:g} s") if late else setup.replay(call)
            say(f"{call.label}: {errors[call.number]}")
        ordered = [errors[call.number] for call in calls]
        wrong = first_dead(ordered) if unmade else first_wrong(ordered, limit=limit)
        if wrong is not None and wrong.adds_up(limit, coarseness(candidate.precision)):
            wrong = None
        line = setup.line(wrong, limit=float("inf") if unmade else limit) if wrong is not None and wrong.call.own else None
    return Located(ordered, _findings(ordered, wrong, line, candidate, limit))


def first_wrong(errors: Sequence[LayerError], *, limit: float) -> LayerError | None:
    """The innermost wrong sublayer that is called first: it is wrong, and all sublayers that it calls are right."""
    return _innermost(errors, [error for error in errors if error.ratio is not None and error.ratio > limit])


def first_dead(errors: Sequence[LayerError]) -> LayerError | None:
    """The innermost sublayer that is called first and cannot be made, while all that it calls can be made."""
    return _innermost(errors, [error for error in errors if error.dead])


def _innermost(errors: Sequence[LayerError], wrong: Sequence[LayerError]) -> LayerError | None:
    above: set[int] = set()
    for error in wrong:
        parent = error.call.parent
        while parent is not None:
            above.add(parent)
            parent = errors[parent].call.parent
    return next((error for error in wrong if error.call.number not in above), None)


def coarseness(precision: str) -> float:
    """How much coarser than float32 a precision rounds; 1 for float32."""
    return _EPSILONS.get(precision, EPSILON) / EPSILON


class ReplayWorker:
    """The object in the child process: loads one sublayer after the other into the candidate's runtime."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def run(self, number: int, folder: str) -> Arrays:
        """Load the candidate in `folder` and run it with the inputs of sublayer `number`."""
        with np.load(self._work / f"{number}.npz", allow_pickle=False) as stored:
            inputs = {f"x{index}": array for index, array in enumerate(inputs_of(dict(stored)))}
        return runtimes.load(self._work / folder).run(inputs)


@dataclass(frozen=True)
class ReplaySetup:
    """The two processes of a replay, and its settings."""

    exporter: Revived
    replayer: Revived
    candidate: Candidate
    work: Path
    floor: float = EPSILON

    def replay(self, call: Call) -> LayerError:
        """Export one sublayer, run it, and compare."""
        if call.reason:
            return LayerError(call, reason=call.reason)
        try:
            self.exporter.call("export", call, self.candidate)
        except CandidateError as obstacle:
            return LayerError(call, reason=f"it cannot be converted on its own: {obstacle}")
        try:
            self.exporter.call("become", str(call.number), self.candidate)
        except CandidateError as death:
            return LayerError(call, reason=f"it cannot be converted on its own: {death}", dead=True)
        with np.load(self.work / f"{call.number}.npz", allow_pickle=False) as stored:
            arrays = dict(stored)
        pairs = [(name, arrays[f"true/{name}"], arrays[f"out/{name}"]) for name in call.outputs]
        floor = (self.floor if call.parent is None else NOISE_FLOOR) * coarseness(self.candidate.precision)
        own = max((differences.relative(reference, differences.expected(truth, reference)) for _, truth, reference in pairs), default=0.0)
        try:
            answer = self.replayer.call("run", call.number, str(call.number))
        except CandidateError as death:
            return LayerError(call, float("inf"), max(own, floor), str(death), own, dead=True)
        finally:
            shutil.rmtree(self.work / str(call.number), ignore_errors=True)
        error, reason = _compare(answer, pairs)
        return LayerError(call, error, max(own, floor), reason, own)

    def line(self, wrong: LayerError, *, limit: float) -> str | None:
        """The first line of the wrong sublayer's forward after which the program, cut off there, is wrong; None if unknown."""
        call, tolerance = wrong.call, 2 * limit * wrong.noise
        try:
            lines: list[str] = self.exporter.call("lines", call)
            if not lines or not self._wrong_after(call, len(lines) - 1, tolerance):
                return None
            low, high = -1, len(lines) - 1  # right after line `low`, wrong after line `high`
            while high - low > 1:
                middle = (low + high) // 2
                if self._wrong_after(call, middle, tolerance):
                    high = middle
                else:
                    low = middle
            return lines[self._origin(call, high, tolerance)]
        except CandidateError:
            return None

    def _origin(self, call: Call, index: int, tolerance: float) -> int:
        """The first line that is wrong among those that the line at `index` needs; lines between the two may be right."""
        while True:
            needed: list[int] = self.exporter.call("needed", call, index)
            earlier = next((one for one in needed if self._wrong_after(call, one, tolerance)), None)
            if earlier is None:
                return index
            index = earlier

    def _wrong_after(self, call: Call, index: int, tolerance: float) -> bool:
        """Whether the program up to a line answers differently from Paddle without optimisation."""
        folder = f"{call.number}-{index}"
        plain = replace(self.candidate, runtime=registry.of(PROGRAM).name, precision="float32", options=_PLAIN)
        self.exporter.call("cut", call, index, plain)
        truth = self.replayer.call("run", call.number, folder)["output"]
        self.exporter.call("cut", call, index, self.candidate)
        try:
            self.exporter.call("become", folder, self.candidate)
            answer = self.replayer.call("run", call.number, folder)["output"]
        except CandidateError:
            return True
        return differences.relative(answer, truth) > tolerance


def _compare(answer: Arrays, pairs: Sequence[tuple[str, Any, Any]]) -> tuple[float, str]:
    """The largest error, with a description if it is infinite."""
    largest, reason = 0.0, ""
    for name, truth, reference in pairs:
        array = answer.get(name)
        if array is None or array.shape != reference.shape or array.dtype != reference.dtype:
            actual = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            return float("inf"), f"{name} is {actual}, eager's is {reference.dtype}{list(reference.shape)}"
        if (error := differences.relative(array, differences.expected(truth, reference))) > largest:
            largest = error
            reason = "" if np.isfinite(error) else f"{name} has NaN or infinity where eager has none, or another value where eager has it"
    return largest, reason


def _findings(
    errors: Sequence[LayerError], wrong: LayerError | None, line: str | None, candidate: Candidate, limit: float
) -> list[Finding]:
    """The findings of the replay, and whether it agrees with the whole program."""
    asked = [error for error in errors if error.ratio is not None]
    if wrong is None:
        return [no_layer(asked, candidate, limit)]
    call, children = wrong.call, [error for error in asked if error.call.parent == wrong.call.number]
    difference = wrong.reason or f"its error is {wrong.ratio:.3g} × eager's own noise"
    message = f"{call.label} is the first whose output differs from the reference in {candidate.name}: {difference}"
    if children:
        message += f"; the {len(children)} it calls are right alone, so it is what its forward does with them"
    if call.times > 1:
        message += f" (called {call.times} times, the first call was replayed)"
    root = next((error for error in asked if error.call.parent is None), None)
    if root is not None and root.ratio is not None and root.ratio <= limit:
        message += "; yet the whole model is right when converted again: the program and the replay disagree"
    advice = "rewrite this line" if line else "rewrite what it does" if call.own else "replace this layer"
    if call.own and not line:
        message += "; which of its lines was not found"
    if not registry.kind_of(candidate).exact:  # the others are made from this program, so they are wrong too
        advice += ", or ship another candidate"
    return [Finding("wrong-layer", "error", message, advice, where=line or call.where, layer=call.path or call.kind)]


def no_layer(asked: Sequence[LayerError], candidate: Candidate, limit: float) -> Finding:
    """A finding that no sublayer alone is wrong, with the error of the model itself."""
    whole = next((error for error in asked if error.call.parent is None), None)
    if whole is None or whole.ratio is None or whole.ratio <= limit:
        message = f"each of {len(asked)} sublayers is right when {candidate.name} answers it alone, the model itself included: "
        message += "the whole program and the replay disagree"
        return Finding(
            "wrong-layer", "note", message, "export again; the fault may be in this export or in inputs that the replay did not run"
        )
    message = f"the model itself differs from the reference in {candidate.name} by {whole.ratio:.3g} × eager's own noise"
    message += f" ({whole.candidate:.2g} of the size of its answer), and none of the {len(asked) - 1} sublayers does so alone"
    return Finding("wrong-layer", "note", message, "no single layer or line is wrong; rounding errors add up: ship another candidate")


def _depth(call: Call, calls: Sequence[Call]) -> int:
    depth = 0
    while call.parent is not None:
        call, depth = calls[call.parent], depth + 1
    return depth
