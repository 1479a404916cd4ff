"""The comparison with peers as a table and as figures: our choice, each peer, and the peers that are better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.choice.peer_comparison import OURS, Row
from paddleship.statistics.estimates import Difference

Rows = Mapping[str, Row]
_WORDS = {
    Difference.BETTER: "faster than ours",
    Difference.WORSE: "slower",
    Difference.CANNOT_TELL: "no difference shown",
    None: "",
}


def table(results: Mapping[str, Rows]) -> str:
    """A block for each model; `÷ ours` is a peer's latency over ours, so less than 1 is faster than ours."""
    head = f"{'beside our choice':34}{'p50 ms':>9}{'÷ ours (95% interval)':>26}{'flips':>8}{'score':>8}"
    blocks = []
    for model, rows in results.items():
        lines = [model, *(f"  {_line(name, row)}" for name, row in rows.items()), f"  {_loss(rows)}", ""]
        blocks.append("\n".join(lines))
    return "\n".join([head, *blocks])


def lost_to(rows: Rows) -> list[str]:
    """The peers that are clearly faster than our choice and whose answers pass the checks of verify."""
    return [name for name, row in rows.items() if name != OURS and row.faster and not row.refused]


def figures(results: Mapping[str, Rows]) -> dict[str, Any]:
    """Flat figures: each ratio, the peers that are better by model, and the number of peers that did not run."""
    if not results:
        return {}
    named = [(model, name, row) for model, rows in results.items() for name, row in rows.items() if name != OURS]
    return {
        **{f"{model}_{name}_ratio": round(row.ratio.value, 4) for model, name, row in named if row.ratio},
        **{f"{model}_lost_to": lost_to(rows) for model, rows in results.items()},
        "models_lost": sum(bool(lost_to(rows)) for rows in results.values()),
        "peers_not_run": sum(bool(row.reason) for _, _, row in named),
    }


def _line(name: str, row: Row) -> str:
    if row.reason:
        return f"{row.title}: did not run: {row.reason[:300]}"
    span = "" if name == OURS or row.ratio is None else f"{row.ratio.value:.3f} ({row.ratio.low:.3f} to {row.ratio.high:.3f})"
    cells = f"{_number(row.p50_ms, '.3g'):>9}{span:>26}{_number(row.flip_rate, '.1%'):>8}{_number(row.score, '.3f'):>8}"
    refused = f"; verify would refuse it ({', '.join(row.refused)})" if row.refused and name != OURS else ""
    return f"{row.title:32}{cells}  {'' if name == OURS else _WORDS[row.word]}{refused}  {row.version}".rstrip()


def _loss(rows: Rows) -> str:
    if OURS in rows and rows[OURS].reason:
        return "nothing was compared: our own choice did not run"
    lost, refused = lost_to(rows), [name for name, row in rows.items() if row.faster and row.refused]
    words = f"whom we lose to: {', '.join(lost) or 'none of those that ran'}"
    return words + (f"; faster, and verify would refuse: {', '.join(refused)}" if refused else "")


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
