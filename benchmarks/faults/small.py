"""Faults of a few times eager's own noise, which is within the tolerance for another runtime's rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.faults.faults import Weights, largest, replaced

SIZES = (3, 5, 8)  # of the change, in units of eager's noise
_ROUNDS, _NEAR = 8, 0.15


@dataclass(frozen=True)
class Small:
    """One kind of small fault; `start` is the first amount that is tried."""

    name: str
    change: Callable[[Weights, float], Weights]
    start: float


def dose(small: Small, size: float, moved: Callable[[float], float]) -> float:
    """The amount of the fault that changes an answer by about `size`, where `moved(amount)` measures the change."""
    found = small.start
    for _ in range(_ROUNDS):
        now = moved(found)
        if abs(now / size - 1) < _NEAR:
            break
        found *= float(np.clip(size / now, 0.1, 10)) if now else 10
    return found


def _one_weight(weights: Weights, dose: float) -> Weights:
    name = largest(weights)
    array = weights[name].copy()
    array[np.unravel_index(np.abs(array).argmax(), array.shape)] *= 1 + dose
    return replaced(weights, name, array)


def _one_matrix(weights: Weights, dose: float) -> Weights:
    name = largest(weights)
    return replaced(weights, name, (weights[name] * (1 + dose)).astype(np.float32))


def _one_bias(weights: Weights, dose: float) -> Weights:
    name = next(name for name in reversed(weights) if "bias" in name)
    array = weights[name].copy()
    array[-1] += dose
    return replaced(weights, name, array)


def _all_weights(weights: Weights, dose: float) -> Weights:
    random, changed = np.random.default_rng(0), weights
    for name, array in weights.items():
        if array.dtype.kind == "f" and np.array_equal(changed[name], array):  # not changed under another name
            changed = replaced(changed, name, (array * (1 + dose * random.normal(size=array.shape))).astype(np.float32))
    return changed


SMALL = (
    Small("one weight slightly off", _one_weight, 1e-4),
    Small("one matrix slightly scaled", _one_matrix, 1e-6),
    Small("one bias slightly off", _one_bias, 1e-6),
    Small("all weights slightly off", _all_weights, 1e-6),
)
