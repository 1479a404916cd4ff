"""Choose the candidate that ships, with the reason in one sentence.

Only proven and measured candidates take part, and all must keep the constraints. A lower precision must be faster than the best float32
candidate by more than the interval of their comparison, for every objective. The eager model must be better than the best static graph in
the same way, because its image contains the model's Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paddleship.benchmark import against_eager
from paddleship.benchmark.against_eager import PERCENTILES, TIMED, Row, cost, distance, nearest
from paddleship.config.catalogue import EAGER
from paddleship.config.sections.select import Select
from paddleship.errors import ParamsError
from paddleship.reports import figures
from paddleship.reports.verdict import Check

Compare = Callable[[str, str], tuple[float, float, float] | None]  # the first's latency over the second's, with its 95% interval

_FALLBACK = {"p99_ms": PERCENTILES}
_CONSTRAINTS = (("slo_p99_ms", "p99_ms"), ("max_memory_bytes", "peak_memory_bytes"), ("max_flip_rate", "flip_rate_high"))


@dataclass(frozen=True)
class Choice:
    """The winner; None if no candidate keeps the constraints.

    `metric` is what it was chosen by, which may be weaker than the objective if there were too few samples. `refused` has the reason for
    each candidate that could not be chosen.
    """

    candidate: str | None
    metric: str
    reason: str
    refused: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


def choose(
    rows: Mapping[str, Row],
    settings: Select,
    *,
    compare: Compare | None = None,
    floor: float = 1.0,
    eager: Row | None = None,
    absent: str = "",
) -> Choice:
    """Choose among the candidates that were proven and measured; `floor` is the ratio of the baseline to itself.

    `eager` is the row of the baseline, `absent` the reason why its candidate is not among the rows although it was requested. Raises
    ParamsError for a select.candidate that is not among them.
    """
    if settings.candidate is not None and settings.candidate not in rows:
        raise ParamsError(
            f"select.candidate is {settings.candidate!r}, which is not proven and measured: set it to one of {', '.join(rows)}, or to null"
        )
    refused = {name: reason for name, row in rows.items() if (reason := _missed(row, settings))}
    fit = {name: row for name, row in rows.items() if name not in refused}
    metric = next(key for key in _FALLBACK.get(settings.objective, (settings.objective,)) if _decides(fit or rows, key))
    if not fit:
        return Choice(None, metric, "no candidate meets the limits in select", refused, _nearest(rows, settings))
    ranking = sorted(fit, key=lambda name: cost(fit[name], nearest(metric, fit[name]) or metric))
    if compare is not None:
        for price in (_lost_precision, _needed_code) if metric in TIMED else (_lost_precision,):
            ranking, doubtful = _prefer(ranking, fit, price, compare, floor)
            refused |= doubtful
    return _decide(ranking, fit, metric, settings, refused, eager, absent)


def _decides(rows: Mapping[str, Row], metric: str) -> bool:
    """Whether the metric decides: candidates without it must be slower in a lower percentile than the best static graph is in it."""
    lacking = [row for row in rows.values() if row[metric] is None]
    free = [row for name, row in rows.items() if not (_lost_precision(name, row) or _needed_code(name, row))]
    best = min((row[metric] for row in free if row[metric] is not None), default=None)
    return not lacking or (best is not None and all((below := nearest(metric, row)) and row[below] > best for row in lacking))


def _decide(
    ranking: list[str],
    rows: Mapping[str, Row],
    metric: str,
    settings: Select,
    refused: dict[str, str],
    eager: Row | None,
    absent: str,
) -> Choice:
    best = ranking[0]
    weaker = (
        ""
        if metric == settings.objective or settings.objective not in _FALLBACK
        else (f"; there are too few samples for {settings.objective}: raise benchmark.max_seconds or benchmark.blocks")
    )
    wished = settings.candidate
    if wished is not None and wished != best:
        price = f"it {refused[wished]}" if wished in refused else _lead(best, rows[best], rows[wished], metric)
        price += f"; it {reason}" if (reason := _needed_code(wished, {})) else ""
        return Choice(wished, metric, f"{wished} is set in select.candidate; {price}{weaker}", refused)
    reason = f"{best} is the only proven candidate that may be chosen ({metric} {rows[best][metric]:.3g})"
    if len(ranking) > 1:
        reason = f"{best} has the best {metric} of {len(ranking)} proven candidates ({rows[best][metric]:.3g})"
        seen = nearest(metric, rows[best], rows[ranking[1]]) or metric
        lacking = "" if seen == metric else f" in {seen}, with too few samples for {metric}"
        reason += f"; the next best, {ranking[1]}, is {distance(rows[ranking[1]], rows[best], seen)} worse{lacking}"
    return Choice(best, metric, reason + _eager(eager, best, rows, metric, refused.get(EAGER, absent)) + weaker, refused)


def _lead(best: str, own: Row, other: Row, metric: str) -> str:
    """How much better the best is than another, in the metric or the highest percentile below it that both have."""
    seen = nearest(metric, own, other) or metric
    return f"{best} has {distance(own, other, seen)} better {seen}"


def _missed(row: Row, settings: Select) -> str:
    """The constraint that a candidate misses, as text; empty if it keeps all."""
    for limit, key in _CONSTRAINTS:
        allowed, measured = getattr(settings, limit), row.get(key)
        if allowed is None or (measured is None and key == "flip_rate_high"):
            continue
        if measured is None:
            return f"has too few samples for {key}, which select.{limit} limits: raise benchmark.max_seconds"
        if not measured <= allowed:
            return f"misses select.{limit} ({key} is {figures.beside(measured, allowed)}, allowed {figures.limit(allowed)})"
    return ""


def _nearest(rows: Mapping[str, Row], settings: Select) -> list[Check]:
    """A check for each constraint that no candidate keeps, with the nearest candidate; if each is kept by some, one check for all."""
    checks = []
    for limit, key in _CONSTRAINTS:
        allowed = getattr(settings, limit)
        measured = {name: row[key] for name, row in rows.items() if row.get(key) is not None}
        if allowed is None:
            continue
        name = min(measured, key=measured.__getitem__, default=None)
        if name is None:
            checks.append(Check(name=key, measured="not measured", limit=allowed, passed=False, advice=_below(rows, limit, allowed)))
        else:
            checks.append(Check.at_most(key, measured[name], allowed, advice=f"{name} is closest: raise select.{limit}"))
    if all(check.passed for check in checks):
        advice = "some candidate meets each limit in select, but none meets all of them: raise one of the limits"
        checks.append(Check.at_least("candidates_within_constraints", 0, 1, advice=advice))
    return checks


def _below(rows: Mapping[str, Row], limit: str, allowed: float) -> str:
    """How near the best came if nothing has enough samples for p99: by the highest percentile that is available."""
    for key in PERCENTILES:
        measured = {name: row[key] for name, row in rows.items() if row.get(key) is not None}
        if not measured:
            continue
        name = min(measured, key=measured.__getitem__)
        text = f"there are too few samples for p99_ms; {name} is closest with a {key} of {figures.beside(measured[name], allowed)}"
        over = measured[name] > allowed
        return f"{text}, already over the limit: raise select.{limit}" if over else f"{text}: raise benchmark.max_seconds"
    return "there are too few samples for any percentile: raise benchmark.max_seconds"


def _prefer(
    ranking: list[str], rows: Mapping[str, Row], price: Callable[[str, Row], str], compare: Compare, floor: float
) -> tuple[list[str], dict[str, str]]:
    """The ranking without candidates that have a price and are not clearly better than the best one without; with the reasons."""
    free = next((name for name in ranking if not price(name, rows[name])), None)
    if free is None:
        return ranking, {}
    out = {}
    for name in ranking[: ranking.index(free)]:
        _, low, high = compare(free, name) or (1.0, 0.0, float("inf"))
        if low <= floor:
            reason = f"is not measurably faster than {free} ({low:.2f} to {high:.2f}×, A/A ratio up to {floor:.2f}×)"
            out[name] = f"{reason}, and {price(name, rows[name])}"
    return [name for name in ranking if name not in out], out


def _lost_precision(_name: str, row: Row) -> str:
    precision = row.get("precision", "float32")
    return "" if precision == "float32" else f"computes in a lower precision ({precision})"


def _needed_code(name: str, _row: Row) -> str:
    return "needs the model's Python code in the image" if name == EAGER else ""


def _eager(eager: Row | None, best: str, rows: Mapping[str, Row], metric: str, out: str) -> str:
    """What eager would cost; or that it is better, and how to ship it; if it won, what its image contains."""
    if best == EAGER:
        return f"; no static graph was {'faster' if metric in TIMED else 'smaller'}, and it {_needed_code(EAGER, rows[EAGER])}"
    return against_eager.describe(eager, best, rows, metric, out=out)
