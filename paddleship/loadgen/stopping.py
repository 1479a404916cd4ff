"""MLPerf's early-stopping rule: which percentiles a number of queries supports, at 99% confidence and without tolerance.

The p-th percentile is below a latency with confidence if so few queries were slower that a true share of 1 - p would show so few, or
fewer, in less than one of a hundred runs (binomial distribution). Source: MLPerf Inference rules, appendix on early stopping. LoadGen
computes it in the same way, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from math import exp, lgamma, log

_CHANCE_OF_ERROR = 0.01


def needed(percentile: float) -> int:
    """The smallest number of queries for a percentile (0 to 1): 64 for 0.9, 130 for 0.95, 662 for 0.99."""
    return next(queries for queries in count(1) if tolerated(queries, percentile) >= 1)


@lru_cache(maxsize=1024)
def tolerated(queries: int, percentile: float) -> int:
    """The number of `queries` that may be slower than a limit with confidence in the percentile; -1: there are too few queries."""
    chance = 0.0
    for slower in range(queries + 1):
        chance += exp(
            lgamma(queries + 1)
            - lgamma(slower + 1)
            - lgamma(queries - slower + 1)
            + slower * log(1 - percentile)
            + (queries - slower) * log(percentile)
        )
        if chance >= _CHANCE_OF_ERROR:
            return slower - 1
    return queries


def estimate(latencies: Sequence[float], percentile: float) -> float | None:
    """An upper limit of the percentile, with confidence; None with fewer queries than `needed`."""
    slower = tolerated(len(latencies), percentile)
    return sorted(latencies)[len(latencies) - slower] if slower >= 1 else None


def percentile_of(latencies: Sequence[float], percentile: float) -> float:
    """The observed percentile by LoadGen's definition: the first latency that this share of the queries does not exceed."""
    return sorted(latencies)[int(len(latencies) * percentile)]
