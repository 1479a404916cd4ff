"""How long requests take in each stage of the server: counts in fixed buckets, which cost a request about a microsecond."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """Counts of values: `counts` has one for each of the `bounds`, whose bucket ends with it, and one for what is beyond."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


class Stages:
    """Seconds of answered requests by stage, and rows of batches. For one thread at a time, the one that answers.

    `queue`, `preprocess` and `postprocess` are of each request; `infer` is of the batch that a request was in. `request` is the whole,
    from the first byte to the encoded answer.
    """

    def __init__(self) -> None:
        self.queue, self.preprocess, self.infer, self.postprocess, self.request = (Histogram(SECONDS) for _ in range(5))
        self.batch_rows, self.batch_requests = Histogram(ROWS), Histogram(ROWS)
        self._of_requests = (self.queue, self.preprocess, self.postprocess, self.request)
        self.requests = self.rows = 0  # that were computed

    def ran(self, requests: int, rows: int, seconds: float) -> None:
        """A batch has been computed."""
        self.infer.add(seconds, requests)
        self.batch_requests.add(requests)
        self.batch_rows.add(rows)
        self.requests += requests
        self.rows += rows

    def answered(self, waited_s: float, preprocess_s: float, postprocess_s: float, whole_s: float) -> None:
        """The answer to a request has been encoded."""
        for histogram, value in zip(self._of_requests, (waited_s, preprocess_s, postprocess_s, whole_s), strict=True):
            histogram.counts[bisect_left(SECONDS, value)] += 1  # not by `add`: every call counts here
            histogram.sum += value
