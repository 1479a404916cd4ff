"""MLPerf's early-stopping rule: what may be said of a percentile after so many queries, at 99% confidence and no tolerance.

The p-th percentile lies below a latency with confidence when so few of the queries were slower than it that a
true share of 1 - p would show so few, or fewer, in less than one run of a hundred (binomial distribution). Source: MLPerf
Inference rules, appendix on early stopping; LoadGen works its figures out the same way, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from math import exp, lgamma, log

_CHANCE_OF_ERROR = 0.01


def needed(percentile: float) -> int:
    """Least number of queries from which a percentile (0 to 1) may be stated: 64 for 0.9, 130 for 0.95, 662 for 0.99."""
    return next(queries for queries in count(1) if tolerated(queries, percentile) >= 1)


@lru_cache(maxsize=1024)
def tolerated(queries: int, percentile: float) -> int:
    """How many of `queries` may be slower than a limit that the percentile still holds with confidence; -1: not even none."""
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
    """A latency that the percentile does not pass, with confidence; None from fewer queries than `needed`."""
    slower = tolerated(len(latencies), percentile)
    return sorted(latencies)[len(latencies) - slower] if slower >= 1 else None


def percentile_of(latencies: Sequence[float], percentile: float) -> float:
    """The percentile seen, by LoadGen's definition: the first latency that this share of the queries is not above."""
    return sorted(latencies)[int(len(latencies) * percentile)]
