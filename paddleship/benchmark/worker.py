"""What lives in the process of a participant: it loads one model, warms it up, and times it.

Who makes the load is one function, an Engine: it asks for the batches by their places and gives back how long each
answer took. `loop` is the plain one: the next request when the last is answered, in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.benchmark import system_metrics
from paddleship.numerics import differences
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import Arrays

Engine = Callable[[Callable[[Sequence[int]], Any], int, int], Sequence[float]]
"""engine(answer, places, count): ask `answer` for `count` of the batches 0 to places - 1; milliseconds of each, in the order asked."""

_SETTLE_S = 0.002  # of every block, unmeasured: another participant had the caches
_WINDOWS = 3  # medians of as many windows of the warm-up that must agree
_WINDOW_S = 0.03
_AGREE = 0.05
_KEPT_BYTES = 16_000_000  # of first answers, to compare later ones with
_SAME = 1e-3  # of the size of an answer: far above rounding, far below another answer


def loop(answer: Callable[[Sequence[int]], Any], places: int, count: int) -> Sequence[float]:
    """Closed loop: one batch after the other, in turn."""
    samples = []
    for place in range(count):
        start = time.perf_counter_ns()
        answer([place % places])
        samples.append((time.perf_counter_ns() - start) / 1e6)
    return samples


@dataclass(frozen=True)
class WarmUp:
    """What the warm-up of one batch size showed; none of its samples is a measurement.

    `new_shape_ms` is what the first call of a shape cost beyond a typical one, for each shape that was new.
    """

    typical_ms: float
    seconds: float
    stable: bool
    new_shape_ms: tuple[float, ...]


class BenchWorker:
    """One model and the batches of each size that it is asked; `cores` are the only ones that it runs on."""

    def __init__(
        self,
        load: Callable[..., Any],
        arguments: tuple[Any, ...],
        batches: Mapping[int, Sequence[Batch]],
        cores: Sequence[int] = (),
        engine: Engine = loop,
    ) -> None:
        system_metrics.pin(cores)
        start = time.perf_counter_ns()
        self._model = load(*arguments)
        self._load_ns = time.perf_counter_ns() - start
        self._batches, self._engine = batches, engine
        self._known: set[Any] = set()
        self._first: dict[tuple[int, int], Arrays] = {}
        self._kept_bytes = 0
        self._turn = 0

    def first(self, size: int) -> tuple[float, float]:
        """Answer the first batch; milliseconds of the loading and of this call."""
        start = time.perf_counter_ns()
        self._model.run(self._batches[size][0])
        taken = time.perf_counter_ns() - start
        self._known.add(_shape(self._batches[size][0]))
        return self._load_ns / 1e6, taken / 1e6

    def warm_up(self, size: int, limit_s: float) -> WarmUp:
        """Answer every batch once, and go on until successive windows agree or `limit_s` is over."""
        start = time.perf_counter()
        known, new = self._answer_each(size, limit_s / _WINDOWS)
        windows: list[float] = []
        stable = False
        while not stable and (not windows or time.perf_counter() - start < limit_s):
            windows.append(self._window(size, known))
            last = windows[-_WINDOWS:]
            stable = len(last) == _WINDOWS and max(last) <= (1 + _AGREE) * min(last)
        extra = tuple(max(0.0, ms - self._timed(size, place)) for place, ms in new)
        return WarmUp(windows[-1], time.perf_counter() - start, stable, extra)

    def measure(self, size: int, count: int) -> tuple[list[float], list[int], str]:
        """Milliseconds of `count` calls, the places of their batches, and what was wrong with the last answer (empty: nothing)."""
        batches, asked, last = self._batches[size], [], {}
        end = time.perf_counter() + _SETTLE_S
        while True:
            self._model.run(batches[self._turn % len(batches)])
            if time.perf_counter() >= end:
                break

        def answer(places: Sequence[int]) -> None:
            place = (places[0] + self._turn) % len(batches)
            asked.append(place)
            last["answer"] = self._model.run(batches[place])

        samples = list(self._engine(answer, len(batches), count))
        self._turn += count
        return samples, asked[-len(samples) :], self._compare(size, asked[-1], last["answer"])

    def busy(self, size: int, seconds: float) -> tuple[int, float]:
        """Answer without a pause for so long: how many batches, in how many seconds."""
        batches, count, start = self._batches[size], 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            self._model.run(batches[count % len(batches)])
            count += 1
        return count, time.perf_counter() - start

    def answer(self, questions: Sequence[Batch]) -> list[Arrays]:
        """What it says to other batches now."""
        return [self._model.run(question) for question in questions]

    def _answer_each(self, size: int, limit_s: float) -> tuple[int, list[tuple[int, float]]]:
        """Answer every batch once, for as long as `limit_s`, and keep the answers.

        Returns how many were answered, and the places and milliseconds of those whose shape was new.
        """
        new, end = [], time.perf_counter() + limit_s
        for place, batch in enumerate(self._batches[size]):
            start = time.perf_counter_ns()
            answer = self._model.run(batch)
            taken = (time.perf_counter_ns() - start) / 1e6
            if _shape(batch) not in self._known:
                self._known.add(_shape(batch))
                new.append((place, taken))
            self._keep(size, place, answer)
            if time.perf_counter() > end:
                break
        return place + 1, new

    def _keep(self, size: int, place: int, answer: Any) -> None:
        if isinstance(answer, Mapping) and self._kept_bytes < _KEPT_BYTES:
            self._first[size, place] = dict(answer)
            self._kept_bytes += sum(array.nbytes for array in answer.values())

    def _window(self, size: int, known: int) -> float:
        """Milliseconds of a batch: the mean of a round over the first `known`, which differ; the median of as many rounds as fit."""
        rounds: list[float] = []
        end = time.perf_counter() + _WINDOW_S
        while not rounds or time.perf_counter() < end:
            start = time.perf_counter_ns()
            for batch in self._batches[size][:known]:
                self._model.run(batch)
            rounds.append((time.perf_counter_ns() - start) / 1e6 / known)
        return float(np.median(rounds))

    def _timed(self, size: int, place: int) -> float:
        start = time.perf_counter_ns()
        self._model.run(self._batches[size][place])
        return (time.perf_counter_ns() - start) / 1e6

    def _compare(self, size: int, place: int, answer: Any) -> str:
        before = self._first.get((size, place))
        if before is None or not isinstance(answer, Mapping):
            return ""
        changed = [
            name for name, array in before.items() if name not in answer or not differences.same(array, answer[name], tolerance=_SAME)
        ]
        return f"output {changed[0]!r} of the same batch differs from the first time" if changed else ""


def _shape(batch: Batch) -> Any:
    return tuple(sorted((name, array.shape) for name, array in batch.items()))
