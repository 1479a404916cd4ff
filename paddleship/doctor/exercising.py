"""Weights and inputs with which a model shows what it does: fresh ones find nothing, or decide for one class whatever they see.

Only for fresh weights and drawn inputs, which stand for any others: other weights for outputs that do not vary, other inputs
for sides of the program that none took. Runs in a child process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.controlflow import regions
from paddleship.controlflow.regions import Decision
from paddleship.controlflow.tracing import Spot, TracedEager
from paddleship.errors import BadInput, ModelError
from paddleship.model import building
from paddleship.model.eager import Eager, Subject
from paddleship.numerics.differences import Array, finite_max
from paddleship.proof import exercise
from paddleship.proof.evidence import EPSILON
from paddleship.proof.inputs import Case
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import Arrays, sizes_of

SECONDS = 10.0
_SIZES = (1.0, 4.0, 0.3)  # of the biases that are tried, and what matrices and kernels are multiplied with
_MAGNITUDES = (3.0, 10.0, 0.1, 100.0, 0.01, 1000.0)  # of the values of an input without a range
_LIMIT = 8  # roundings by which an output that does not vary may vary


def still(cases: Sequence[Case], answers: Mapping[str, Arrays]) -> dict[str, str]:
    """Outputs that were empty or constant in these answers, in words."""
    answered = [case for case in cases if case.name in answers]
    told = [answers[case.name] for case in answered]
    sizes = {name: finite_max([one[name] for one in told]) for name, array in told[0].items() if array.dtype.kind == "f"}
    return exercise.still(answered, told, {name: _LIMIT * EPSILON * size for name, size in sizes.items()})


def search(subject: Subject, cases: Sequence[Case], seconds: float) -> bool:
    """Replace the checkpoint by other fresh weights with which fewer outputs are empty or constant; whether some were found in time.

    Biases are drawn anew and matrices scaled, so that scores spread to both sides of whatever threshold they meet.
    """
    end = time.monotonic() + seconds
    eager = Eager(subject)
    rows = [case for case in cases if case.group == "rows"]
    fresh = {name: tensor.numpy() for name, tensor in eager.layer.named_parameters()}
    best, kept = len(still(rows, _ask(eager, rows))), fresh
    random = np.random.default_rng(subject.seed)
    for attempt in range(10**6):
        if not best or time.monotonic() > end:
            break
        tried = {name: _other(array, _SIZES[attempt % len(_SIZES)], random) for name, array in fresh.items()}
        _fill(eager, tried)
        try:
            answers = _ask(eager, rows)
            left = len(still(rows, answers))
        except BadInput:
            continue
        if left < best and all(np.isfinite(array).all() for one in answers.values() for array in one.values() if array.dtype.kind == "f"):
            best, kept = left, tried
    if kept is fresh:
        return False
    _fill(eager, kept)
    building.save(eager.layer, subject.checkpoint, {"seed": subject.seed, "scaled": True})
    return True


def reach(subject: Subject, cases: Sequence[Case], exported: Path, taken: Mapping[Spot, set[int]], seconds: float) -> list[Case]:
    """Cases of other values, within what is declared, that take sides of the program in `exported` that none of `cases` took.

    `taken` are the ways of `cases`. Each is judged by itself, as edges are, since its values are of another size.
    """
    end = time.monotonic() + seconds
    decisions, specs = regions.read(exported), [item.spec() for item in subject.model.inputs]
    eager, random = TracedEager(subject), np.random.default_rng(subject.seed)
    eager.taken().update({spot: set(ways) for spot, ways in taken.items()})
    rows = [case.inputs for case in cases if case.group == "rows"]
    left, found = _untaken(decisions, eager), list[Case]()
    for attempt in range(10**6):
        if not left or not rows or time.monotonic() > end:
            break
        like = rows[attempt % len(rows)]
        size, sizes = _MAGNITUDES[attempt // len(rows) % len(_MAGNITUDES)], sizes_of(specs, like)
        tried = {spec.name: _redrawn(like[spec.name], spec.limits(sizes), size, random) for spec in specs}
        before = {spot: set(ways) for spot, ways in eager.taken().items()}
        if _finite(eager, tried) and (now := _untaken(decisions, eager)) < left:
            left = now
            found.append(Case(f"values for another branch, {len(found) + 1}", "edge", tried))
        else:
            eager.taken().clear()
            eager.taken().update(before)
    return found


def _finite(eager: Eager, inputs: Batch) -> bool:
    """Whether the model takes these inputs and answers with finite numbers."""
    try:
        return all(np.isfinite(array).all() for array in eager.run(inputs).values() if array.dtype.kind == "f")
    except ModelError:
        return False


def _untaken(decisions: Sequence[Decision], eager: TracedEager) -> float:
    """How many sides of the program were never taken."""
    counts = regions.judge(decisions, eager.taken())[1]
    return counts["sides"] - counts["sides_exercised"]


def _redrawn(array: Array, limits: tuple[Any, Any], size: float, random: np.random.Generator) -> Array:
    """Other values of the same shape: evenly from a part of the range, or where there is no end, of this `size`, around another middle."""
    low, high = limits
    if array.dtype.kind == "b":
        return np.asarray(random.random(array.shape) < random.random())
    if low is not None and high is not None:
        first, last = sorted((float(random.uniform(low, high)), float(random.uniform(low, high))))
        drawn = random.uniform(first, last, array.shape)
        return np.asarray(np.clip(np.rint(drawn) if array.dtype.kind in "iu" else drawn, low, high), array.dtype)
    if array.dtype.kind in "iu":
        return array
    drawn = random.normal(random.choice((-1, 0, 1)) * size, random.choice((0.1, 1.0)) * size, array.shape)
    return np.asarray(np.clip(drawn, low, high), array.dtype)


def _ask(eager: Eager, cases: Sequence[Case]) -> dict[str, Arrays]:
    """The answers to the cases that the model takes. Raises ModelError when it takes none."""
    answers: dict[str, Arrays] = {}
    for case in cases:
        try:
            answers[case.name] = eager.run(case.inputs)
        except ModelError:
            continue
    if not answers:
        raise ModelError("no case was answered")
    return answers


def _other(array: Array, size: float, random: np.random.Generator) -> Array:
    """A matrix scaled up; a bias drawn around what it starts at, which is far below zero for that of a rare class."""
    if array.dtype.kind != "f" or not array.size:
        return array
    if array.ndim > 1:
        return np.asarray(array * max(size, 1), array.dtype)
    spread = float(np.abs(array).max()) or 1.0
    return np.asarray(array + random.normal(scale=size * spread, size=array.shape), array.dtype)


def _fill(eager: Eager, weights: Mapping[str, Array]) -> None:
    for name, tensor in eager.layer.named_parameters():
        tensor.set_value(weights[name])
