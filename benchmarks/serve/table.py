"""What was measured of servers, as a table and as shares of what is possible."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.serve.servers import Measured

BATCHED, ALONE, CONSTANT = "paddleship", "paddleship, no batching", "constant on its HTTP stack"
_OURS = (BATCHED, ALONE, CONSTANT)
_MOST = 32
GOALS = {"of_constant_32": 0.8, "of_in_process_1": 0.85, "of_in_process_32": 0.85, "of_best_peer_32": 1.3}


@dataclass
class Rates:
    """By server and number of connections, and in process by the number of requests that are answered together: a value for each round."""

    servers: dict[tuple[str, int], list[Measured]] = field(default_factory=dict)
    inside: dict[int, list[float]] = field(default_factory=dict)


def figures(rates: Rates) -> dict[str, float]:
    """The server's requests a second as shares: of a constant, of the best peer, and of what stack and candidate need in turn on a core."""
    rate = {key: statistics.median(one.rate for one in several) for key, several in rates.servers.items()}
    both = {count: 1 / (1 / rate[CONSTANT, count] + 1 / statistics.median(rates.inside[count])) for count in (1, _MOST)}
    theirs = [value for (name, count), value in rate.items() if name not in _OURS and count == _MOST]
    of_peer = {f"of_best_peer_{_MOST}": round(rate[BATCHED, _MOST] / max(theirs), 3)} if theirs else {}
    return {
        **{f"of_constant_{count}": round(rate[BATCHED, count] / rate[CONSTANT, count], 3) for count in both},
        **{f"of_in_process_{count}": round(rate[BATCHED, count] / most, 3) for count, most in both.items()},
        **of_peer,
        "failures": sum(one.failures for several in rates.servers.values() for one in several),
    }


def of(rates: Rates, unable: Mapping[str, str]) -> str:
    """The table; `unable` has the reason for each server that was not measured."""
    lines = [f"{'server':26} {'connections':>11} {'requests/s':>28} {'p99 ms':>8} {'cpu µs':>7}"]
    for (name, count), several in rates.servers.items():
        p99, cpu = (statistics.median(values) for values in zip(*((one.p99_ms, one.cpu_us) for one in several), strict=True))
        lines.append(f"{name:26} {count:11} {_spread([one.rate for one in several])} {p99:8.2f} {cpu:7.1f}")
    lines += [f"{'in process, together':26} {count:11} {_spread(values)}" for count, values in rates.inside.items()]
    return "\n".join([*lines, *(f"{name}: not measured, {reason}" for name, reason in unable.items())])


def _spread(values: Sequence[float]) -> str:
    return f"{f'{statistics.median(values):,.0f} [{min(values):,.0f}, {max(values):,.0f}]':>28}"
