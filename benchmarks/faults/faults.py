"""Faults between an eager model and its deployment, injected into an export.

A fault changes the exported weights, the exported code, or the inputs and answers, as a faulty runtime or server would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays

Weights = dict[str, np.ndarray[Any, Any]]
IMAGES, TEXTS = ("ConvolutionalNet", "DepthwiseNet"), ("Recurrent", "Attention", "Tagger")
TABLES = ("TwoTowers", "Branching")
SERIES = ("Seasonal",)  # without float64, and every row's answer depends on its batch
ALL = (*IMAGES, *TEXTS, *TABLES, *SERIES)
_RARE = 6  # ids


@dataclass(frozen=True)
class Fault:
    """One kind of fault and the models that it fits: changed weights, changed code, or a wrapped runtime.

    `concurrent`: it shows only with concurrent callers.
    """

    name: str
    models: tuple[str, ...]
    weights: Callable[[Weights, Weights], Weights] | None = None
    code: str | None = None
    wrap: Callable[[Any], Any] | None = None
    concurrent: bool = False


class Wrapped:
    """A runtime with a fault between it and its caller."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def run(self, inputs: Batch) -> Arrays:
        return self.after(self.inner.run(self.before(inputs)), inputs)

    def before(self, inputs: Batch) -> Batch:
        return inputs

    def after(self, answer: Arrays, inputs: Batch) -> Arrays:
        return answer


def before(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Any], Any]:
    """A runtime whose first input is changed."""

    class Changed(Wrapped):
        def before(self, inputs: Batch) -> Batch:
            first = next(iter(inputs))
            return {**inputs, first: np.ascontiguousarray(change(inputs[first]).astype(inputs[first].dtype))}

    return Changed


def after(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Any], Any]:
    """A runtime whose first output is changed."""

    class Changed(Wrapped):
        def after(self, answer: Arrays, inputs: Batch) -> Arrays:
            first = next(iter(answer))
            return {**answer, first: change(answer[first].copy()).astype(answer[first].dtype)}

    return Changed


class FrozenLength(Wrapped):
    """A program that keeps the length of its example: longer rows are cut, shorter ones padded."""

    LENGTH = 12

    def before(self, inputs: Batch) -> Batch:
        ids = inputs["ids"][:, : self.LENGTH]
        return {"ids": np.ascontiguousarray(np.pad(ids, ((0, 0), (0, self.LENGTH - ids.shape[1]))))}


class Swapped(Wrapped):
    def after(self, answer: Arrays, inputs: Batch) -> Arrays:
        return dict(zip(answer, reversed(answer.values()), strict=True))


class LastOfTies(Wrapped):
    """An argmax that takes the last of equal scores."""

    def after(self, answer: Arrays, inputs: Batch) -> Arrays:
        scores = answer["logits"]
        return {**answer, "label": scores.shape[-1] - 1 - scores[:, ::-1].argmax(-1)}


class Previous(Wrapped):
    """Returns the answer to the previous input, if its form fits."""

    last: Arrays | None = None

    def after(self, answer: Arrays, inputs: Batch) -> Arrays:
        stale, self.last = self.last, answer
        fits = stale and all(stale[name].shape == array.shape for name, array in answer.items())
        return stale if stale and fits else answer


class Forgets(Wrapped):
    """Answers wrongly after many calls."""

    asked = 0

    def after(self, answer: Arrays, inputs: Batch) -> Arrays:
        self.asked += 1
        return answer if self.asked <= self.warm else {name: array + array.dtype.type(1) for name, array in answer.items()}

    warm = 60  # calls: more than there are cases


class Racing(Wrapped):
    """Stores its input where another thread can overwrite it."""

    def run(self, inputs: Batch) -> Arrays:
        self.current = inputs
        time.sleep(0.001)
        answer: Arrays = self.inner.run(self.current)
        return answer


class RacingInLargeBatches(Racing):
    """The same, of large batches only."""

    def run(self, inputs: Batch) -> Arrays:
        answer: Arrays = super().run(inputs) if len(next(iter(inputs.values()))) >= 16 else self.inner.run(inputs)
        return answer


class LongestKept(Wrapped):
    """A program with positions for rows of a certain length, which cuts longer rows."""

    def before(self, inputs: Batch) -> Batch:
        return {"ids": np.ascontiguousarray(inputs["ids"][:, :48])}


class NoInferenceThread:
    """A server that lets all callers use the runtime at once, with a lock around the runtime itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        answer = function(*arguments)
        return type("Done", (), {"result": lambda _: answer})()

    def shutdown(self) -> None:
        """Nothing is waiting."""


def replaced(weights: Weights, name: str, array: np.ndarray[Any, Any]) -> Weights:
    """The weights with another array under `name`, and under every other name of the same weight: recurrent layers have two."""
    old = weights[name]
    return {other: array if value.shape == old.shape and np.array_equal(value, old) else value for other, value in weights.items()}


def largest(weights: Mapping[str, Any]) -> str:
    """The matrix or kernel with the most values, except embeddings."""
    return max(
        (name for name, array in weights.items() if array.ndim > 1 and "embed" not in name), key=lambda name: (weights[name].size, name)
    )


def _one_weight_off(weights: Weights, _: Weights) -> Weights:
    name = largest(weights)
    array = weights[name].copy()
    array[np.unravel_index(np.abs(array).argmax(), array.shape)] *= 1.001
    return replaced(weights, name, array)


def _channels_swapped(weights: Weights, _: Weights) -> Weights:
    name = largest(weights)
    array = weights[name].copy()
    array[[0, 1]] = array[[1, 0]]
    return replaced(weights, name, array)


def _layers_exchanged(weights: Weights, _: Weights) -> Weights:
    """Exchange the first two matrices of the same shape."""
    matrices = [name for name, array in weights.items() if array.ndim == 2]
    one, two = next(
        (one, two)
        for place, one in enumerate(matrices)
        for two in matrices[place + 1 :]
        if weights[one].shape == weights[two].shape and not np.array_equal(weights[one], weights[two])
    )
    first, second = weights[one], weights[two]
    return {
        name: second if np.array_equal(array, first) else first if np.array_equal(array, second) else array
        for name, array in weights.items()
    }


def _rare_ids_shifted(weights: Weights, _: Weights) -> Weights:
    """Move the rows of the last ids, which are rare in a text, by one."""
    array = weights["embed.weight"]
    return replaced(weights, "embed.weight", np.concatenate([array[:-_RARE], np.roll(array[-_RARE:], 1, axis=0)]))


def _bias_dropped(weights: Weights, _: Weights) -> Weights:
    name = next(name for name in reversed(weights) if "bias" in name)
    array = weights[name].copy()
    array[-1] = 0
    return replaced(weights, name, array)


def _rounded(bits: int) -> Callable[[Weights, Weights], Weights]:
    """Weights with `bits` bits of mantissa."""

    def change(weights: Weights, _: Weights) -> Weights:
        return {name: _keep_bits(array, bits) if array.dtype.kind == "f" else array for name, array in weights.items()}

    return change


def _keep_bits(array: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.round(np.ldexp(fraction, bits + 1)), exponent - bits - 1).astype(array.dtype)


def _int8_wrong_scale(weights: Weights, _: Weights) -> Weights:
    """Int8 weights with a scale for a tenth of the range."""
    changed = {}
    for name, array in weights.items():
        scale = np.abs(array).max() * 0.5 / 127 if array.ndim > 1 else 0
        changed[name] = (np.clip(np.round(array / scale), -127, 127) * scale).astype(array.dtype) if scale else array
    return changed


def _transposed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.swapaxes(-1, -2) if array.ndim == 4 else array[:, ::-1]


def _nan_on_one_row(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if len(array) > 16:
        array[11] = np.nan
    return array


def _large_batch_wrong(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array[16:] *= 1.0001
    return array


def _odd_batch_wrong(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array * np.where(array > 0, 1.001, 0.999) if len(array) == 21 else array


def _some_ids_shifted(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where((ids >= 30) & (ids < 33), ids + 1, ids)


def _last_row_repeated(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if len(array) > 2:
        array[-1] = array[-2]
    return array


def _shifted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array + 0.3 * np.abs(array).max()


def _saturated(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    limit = 0.95 * np.abs(array).max()
    return np.clip(array, -limit, limit)


FAULTS = (
    Fault("one weight off by 1e-3", ALL, weights=_one_weight_off),
    Fault("two channels swapped", ALL, weights=_channels_swapped),
    Fault("weights of two equal layers exchanged", ("Recurrent", "Attention", *TABLES), weights=_layers_exchanged),
    Fault("rows of rare ids moved by one", TEXTS, weights=_rare_ids_shifted),
    Fault("a stale checkpoint", ALL, weights=lambda _, stale: stale),
    Fault("one bias dropped", ALL, weights=_bias_dropped),
    Fault("weights in float16", ALL, weights=_rounded(10)),
    Fault("weights in bfloat16", ALL, weights=_rounded(7)),
    Fault("int8 with the wrong scale", ALL, weights=_int8_wrong_scale),
    Fault("dropout left on", ("ConvolutionalNet", "Attention"), code="dropout"),
    Fault("batch norm on the batch's statistics", IMAGES, code="statistics"),
    Fault("another epsilon", (*IMAGES, "Attention", "TwoTowers"), code="epsilon"),
    Fault("an approximate activation", ("TwoTowers",), code="approximate"),
    Fault("a frozen branch", ("Branching",), code="frozen"),
    Fault("a frozen length", TEXTS, wrap=FrozenLength),
    Fault("input transposed", (*IMAGES, "Recurrent", *TABLES), wrap=before(_transposed)),
    Fault("wrong normalisation", (*IMAGES, *TABLES), wrap=before(lambda array: array * 1.0001 + 1e-4)),
    Fault("input in float16", (*IMAGES, *TABLES), wrap=before(lambda array: array.astype(np.float16))),
    Fault("padding id off by one", TEXTS, wrap=before(lambda array: np.where(array == 0, 1, array))),
    Fault("the last id cut off", TEXTS, wrap=before(lambda array: array[:, :-1] if array.shape[1] > 1 else array)),
    Fault("one pad id attended", TEXTS, wrap=before(lambda array: np.pad(array, ((0, 0), (0, 1)), constant_values=1))),
    Fault("outputs swapped", ("TwoTowers",), wrap=Swapped),
    Fault("argmax takes the last of ties", ("Tagger",), wrap=LastOfTies),
    Fault("NaN on one row", ALL, wrap=after(_nan_on_one_row)),
    Fault("wrong in large batches only", ALL, wrap=after(_large_batch_wrong)),
    Fault("wrong at one odd batch size only", ALL, wrap=after(_odd_batch_wrong)),
    Fault("wrong beyond the longest row seen", TEXTS, wrap=LongestKept),
    Fault("ids of a part of the range shifted by one", TEXTS, wrap=before(_some_ids_shifted)),
    Fault("the last row repeats the one before", ALL, wrap=after(_last_row_repeated)),
    Fault("rows in another order", ALL, wrap=after(lambda array: array[::-1])),
    Fault("answers rounded to 3 digits", ALL, wrap=after(lambda array: np.round(array, 3))),
    Fault("answers saturate", ALL, wrap=after(_saturated)),
    Fault("all answers zero", SERIES, wrap=after(lambda array: array * 0)),
    Fault("answers halved", SERIES, wrap=after(lambda array: array / 2)),
    Fault("answers negated", SERIES, wrap=after(lambda array: -array)),
    Fault("answers shifted", SERIES, wrap=after(_shifted)),
    Fault("answers reversed in time", SERIES, wrap=after(lambda array: array[:, ::-1])),
    Fault("the answer to the question before", ALL, wrap=Previous),
    Fault("wrong after many questions", ALL, wrap=Forgets),
    Fault("threads overwrite each other's question", ALL, wrap=Racing, concurrent=True),
    Fault("wrong under concurrency at larger batches", ALL, wrap=RacingInLargeBatches, concurrent=True),
)
