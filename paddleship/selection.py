"""Which candidate ships, and why, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddleship.errors import ParamsError
from paddleship.params import Select

_FALLBACK = {"p99_ms": ("p99_ms", "p95_ms", "p90_ms", "p50_ms"), "p50_ms": ("p50_ms",), "throughput_per_s": ("throughput_per_s",)}


@dataclass(frozen=True)
class Choice:
    """The winner; `metric` is what it was chosen by, which is weaker than the objective when there were too few samples."""

    candidate: str
    metric: str
    reason: str


def choose(rows: Mapping[str, Mapping[str, Any]], settings: Select) -> Choice:
    """Choose among the candidates that were proven and measured. Raises ParamsError for a select.candidate that is none of them."""
    metric = next(key for key in _FALLBACK[settings.objective] if all(row[key] is not None for row in rows.values()))
    sign = -1 if metric == "throughput_per_s" else 1
    ranking = sorted(rows, key=lambda name: sign * rows[name][metric])
    best = ranking[0]
    if settings.candidate is not None and settings.candidate not in rows:
        raise ParamsError(
            f"select.candidate {settings.candidate!r} is not proven and measured (those are {', '.join(rows)}): choose one of them, or null"
        )
    weaker = "" if metric == settings.objective else f"; too few samples for {settings.objective}: raise benchmark.max_seconds or blocks"
    if settings.candidate is not None and settings.candidate != best:
        gives_up = _distance(rows[settings.candidate][metric], rows[best][metric])
        return Choice(
            settings.candidate,
            metric,
            f"{settings.candidate} was asked for by select.candidate; {best} has {gives_up} better {metric}{weaker}",
        )
    words = f"{best} has the best {metric} of {len(rows)} proven candidates ({rows[best][metric]:.3g})"
    if len(ranking) > 1:
        words += f"; the next best, {ranking[1]}, is {_distance(rows[ranking[1]][metric], rows[best][metric])} worse"
    return Choice(best, metric, words + weaker)


def _distance(one: float, other: float) -> str:
    return f"{100 * (max(one, other) / min(one, other) - 1):.0f}%"
