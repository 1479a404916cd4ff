"""Find fresh weights with which outputs vary: with the first ones, a model may find nothing or always choose the same class.

Only for fresh weights, because any others are as good. Runs in a child process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from paddleship.errors import BadInput, ModelError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.numerics.differences import Array
from paddleship.proof import exercise
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.spec import Arrays

SECONDS = 10.0
_SIZES = (1.0, 4.0, 0.3)  # scales of the biases, and factors of matrices and kernels


def unvarying(cases: Sequence[Case], answers: Mapping[str, Arrays]) -> list[str]:
    """Outputs that were empty or constant in these answers."""
    answered = [case for case in cases if case.name in answers]
    variations = exercise.variations(answered, [answers[case.name] for case in answered])
    return [name for name, one in variations.items() if one.missing]


def search(source_model: SourceModel, cases: Sequence[Case], seconds: float) -> bool:
    """Replace the checkpoint by other fresh weights with which fewer outputs are empty or constant; False if none were found in time.

    With them, the model has to answer the same cases with the same outputs: one that decodes until its end token may return none.

    Biases are drawn again and matrices scaled, so that scores fall on both sides of a threshold.
    """
    end = time.monotonic() + seconds
    eager = Eager(source_model)
    rows = [case for case in cases if case.group == "rows"]
    fresh = {name: tensor.numpy() for name, tensor in eager.layer.named_parameters()}
    first = _ask(eager, rows)
    best, best_weights = len(unvarying(rows, first)), fresh
    random = np.random.default_rng(source_model.seed)
    for attempt in range(10**6):
        if not best or time.monotonic() > end:
            break
        tried = {name: _other(array, _SIZES[attempt % len(_SIZES)], random) for name, array in fresh.items()}
        _fill(eager, tried)
        try:
            answers = _ask(eager, rows)
            left = len(unvarying(rows, answers))
        except BadInput:
            continue
        if left < best and _outputs(answers) == _outputs(first) and _finite(answers):
            best, best_weights = left, tried
    if best_weights is fresh:
        return False
    _fill(eager, best_weights)
    building.save(eager.layer, source_model.checkpoint, {"seed": source_model.seed, "scaled": True})
    return True


def _ask(eager: Eager, cases: Sequence[Case]) -> dict[str, Arrays]:
    """The answers to the cases that the model accepts. Raises ModelError if it accepts none."""
    answers: dict[str, Arrays] = {}
    for case in cases:
        try:
            answers[case.name] = eager.run(case.inputs)
        except ModelError:
            continue
    if not answers:
        raise ModelError("no case was answered")
    return answers


def _outputs(answers: Mapping[str, Arrays]) -> dict[str, set[str]]:
    return {name: set(answer) for name, answer in answers.items()}


def _finite(answers: Mapping[str, Arrays]) -> bool:
    return all(np.isfinite(array).all() for answer in answers.values() for array in answer.values() if array.dtype.kind == "f")


def _other(array: Array, size: float, random: np.random.Generator) -> Array:
    """A scaled matrix, or a bias drawn around its initial value, which is far below zero for a rare class.

    A matrix of zeros, as the last layer of a diffusion model has at first, is drawn in the usual size instead.
    """
    if array.dtype.kind != "f" or not array.size:
        return array
    if array.ndim > 1 and not array.any():
        return np.asarray(random.normal(scale=np.sqrt(array.shape[-1] / array.size), size=array.shape), array.dtype)
    if array.ndim > 1:
        return np.asarray(array * max(size, 1), array.dtype)
    spread = float(np.abs(array).max()) or 1.0
    return np.asarray(array + random.normal(scale=size * spread, size=array.shape), array.dtype)


def _fill(eager: Eager, weights: Mapping[str, Array]) -> None:
    for name, tensor in eager.layer.named_parameters():
        tensor.set_value(weights[name])
