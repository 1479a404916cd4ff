"""The object in a participant's worker process: loads one model, warms it up, and measures it.

The load is a closed loop: the next request when the last one is answered, batch after batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.benchmark import system_metrics
from paddleship.numerics import differences
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays

_SETTLE_S = 0.002  # at the start of every block, not measured, because another participant used the caches
_WINDOWS = 3  # number of successive windows of a warm-up whose medians must agree
_WINDOW_S = 0.03
_AGREE = 0.05
_MOST_STORED_BYTES = 16_000_000  # of first answers, which later ones are compared with
_SAME = 1e-3  # of the size of an answer: far above rounding, far below a different answer


@dataclass(frozen=True)
class WarmUp:
    """The warm-up of one batch size; none of its samples is a measurement.

    `new_shape_ms` is the extra time of the first call with each new shape.
    """

    typical_ms: float
    seconds: float
    stable: bool
    new_shape_ms: tuple[float, ...]


class BenchWorker:
    """One model and its batches by size, pinned to `cores`."""

    def __init__(
        self,
        load: Callable[..., Any],
        arguments: tuple[Any, ...],
        batches: Mapping[int, Sequence[Batch]],
        cores: Sequence[int] = (),
    ) -> None:
        system_metrics.pin(cores)
        start = time.perf_counter_ns()
        self._model = load(*arguments)
        self._load_ns = time.perf_counter_ns() - start
        self._batches = batches
        self._known: set[Any] = set()
        self._first: dict[tuple[int, int], Arrays] = {}
        self._stored_bytes = 0
        self._turn = 0

    def first(self, size: int) -> tuple[float, float]:
        """Answer the first batch. Returns milliseconds of loading and of this call."""
        start = time.perf_counter_ns()
        self._model.run(self._batches[size][0])
        taken = time.perf_counter_ns() - start
        self._known.add(_shape(self._batches[size][0]))
        return self._load_ns / 1e6, taken / 1e6

    def warm_up(self, size: int, limit_s: float) -> WarmUp:
        """Answer every batch once, and continue until successive windows agree or `limit_s` is over."""
        start = time.perf_counter()
        known, new = self._answer_each(size, limit_s / _WINDOWS)
        windows: list[float] = []
        stable = False
        while not stable and (not windows or time.perf_counter() - start < limit_s):
            windows.append(self._window(size, known))
            last = windows[-_WINDOWS:]
            stable = len(last) == _WINDOWS and max(last) <= (1 + _AGREE) * min(last)
        extra = tuple(max(0.0, ms - self._timed(size, index)) for index, ms in new)
        return WarmUp(windows[-1], time.perf_counter() - start, stable, extra)

    def measure(self, size: int, count: int) -> tuple[list[float], list[int], str]:
        """Milliseconds of `count` calls, the indices of their batches, and what was wrong with the last answer (empty: nothing)."""
        batches, samples, indices = self._batches[size], [], []
        end = time.perf_counter() + _SETTLE_S
        while True:
            self._model.run(batches[self._turn % len(batches)])
            if time.perf_counter() >= end:
                break
        for step in range(count):
            index = (self._turn + step) % len(batches)
            start = time.perf_counter_ns()
            answer = self._model.run(batches[index])
            samples.append((time.perf_counter_ns() - start) / 1e6)
            indices.append(index)
        self._turn += count
        return samples, indices, self._compare(size, indices[-1], answer)

    def busy(self, size: int, seconds: float) -> tuple[int, float]:
        """Answer without pauses for this time. Returns the number of batches, and the seconds."""
        batches, count, start = self._batches[size], 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            self._model.run(batches[count % len(batches)])
            count += 1
        return count, time.perf_counter() - start

    def answer(self, questions: Sequence[Batch]) -> list[Arrays]:
        """The current answers to other batches."""
        return [self._model.run(question) for question in questions]

    def _answer_each(self, size: int, limit_s: float) -> tuple[int, list[tuple[int, float]]]:
        """Answer every batch once, for at most `limit_s`, and keep the answers.

        Returns the number of answers, and index and milliseconds of those with a new shape.
        """
        new, end = [], time.perf_counter() + limit_s
        for index, batch in enumerate(self._batches[size]):
            start = time.perf_counter_ns()
            answer = self._model.run(batch)
            taken = (time.perf_counter_ns() - start) / 1e6
            if _shape(batch) not in self._known:
                self._known.add(_shape(batch))
                new.append((index, taken))
            self._store(size, index, answer)
            if time.perf_counter() > end:
                break
        return index + 1, new

    def _store(self, size: int, index: int, answer: Any) -> None:
        if isinstance(answer, Mapping) and self._stored_bytes < _MOST_STORED_BYTES:
            self._first[size, index] = dict(answer)
            self._stored_bytes += sum(array.nbytes for array in answer.values())

    def _window(self, size: int, known: int) -> float:
        """Milliseconds per batch: the mean of a round over the first `known` batches, and the median of as many rounds as fit."""
        rounds: list[float] = []
        end = time.perf_counter() + _WINDOW_S
        while not rounds or time.perf_counter() < end:
            start = time.perf_counter_ns()
            for batch in self._batches[size][:known]:
                self._model.run(batch)
            rounds.append((time.perf_counter_ns() - start) / 1e6 / known)
        return float(np.median(rounds))

    def _timed(self, size: int, index: int) -> float:
        start = time.perf_counter_ns()
        self._model.run(self._batches[size][index])
        return (time.perf_counter_ns() - start) / 1e6

    def _compare(self, size: int, index: int, answer: Any) -> str:
        before = self._first.get((size, index))
        if before is None or not isinstance(answer, Mapping):
            return ""
        changed = [
            name for name, array in before.items() if name not in answer or not differences.same(array, answer[name], tolerance=_SAME)
        ]
        return f"output {changed[0]!r} differs from the first answer to the same batch" if changed else ""


def _shape(batch: Batch) -> Any:
    return tuple(sorted((name, array.shape) for name, array in batch.items()))
