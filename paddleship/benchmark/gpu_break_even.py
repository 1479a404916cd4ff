"""CPU or GPU: the batch size from which a GPU costs less per row."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def batch_size(rates: Mapping[str, Mapping[int, float]], prices: Mapping[str, float], on_gpu: Collection[str]) -> int | None:
    """The smallest batch size from which on the cheapest candidate on a GPU costs less per row than the cheapest other one.

    `rates` are rows per second by candidate and batch size, `prices` are per time. None if there is no such size, or only one of the two.
    """
    found = None
    for size in sorted({size for by_size in rates.values() for size in by_size}, reverse=True):
        costs = {name: prices[name] / by_size[size] for name, by_size in rates.items() if by_size.get(size)}
        gpus, others = ([cost for name, cost in costs.items() if (name in on_gpu) is wanted] for wanted in (True, False))
        if not gpus or not others or min(gpus) >= min(others):
            break
        found = size
    return found
