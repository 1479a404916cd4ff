"""`make parity-bench`: inject faults into exports, and count missed faults and false alarms of `verify` and of other checks.

Prints a table and, as the last line, its figures as JSON; exits 3 if a goal is missed. `SHORT=1` is the form for CI: fewer models and
seeds, each kind of fault in one model, small faults of the smallest size, Polygraphy only if it is installed already, and not the cost of
verify.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.faults import cost, ends, hidden, peers
from benchmarks.faults.faults import FAULTS
from benchmarks.faults.forge import Forge, Outcome, allclose_refuses
from benchmarks.faults.models import FLOAT32_ONLY, INPUTS
from benchmarks.faults.small import SIZES, SMALL
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.system import host, isolate

_SHORT = ("TwoTowers", "Tagger", "Branching", "Seasonal")
_TIMEOUT_S = 900


def main() -> None:
    silence_paddle()
    short = bool(os.environ.get("SHORT"))
    names, seeds = (_SHORT, 1) if short else (tuple(INPUTS), 18)
    elsewhere, sizes = (_elsewhere(names), SIZES[:1]) if short else ({}, SIZES)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda name: measure(name, Path(work) / name, seeds, sizes, elsewhere.get(name, ())), names))
        at_ends = ends.measure(Path(work), short=short)
        costs = {} if short else cost.measure(Path(work))
    outcomes = [outcome for part in parts for outcome in part]
    missing = "" if peers.ENVIRONMENT.ready else "not installed: run the long form" if short else peers.install()
    refused = peers.polygraphy_refuses([outcome.pair for outcome in outcomes]) if not missing else [None] * len(outcomes)
    rows = [(outcome, allclose_refuses(outcome.pair), peer) for outcome, peer in zip(outcomes, refused, strict=True)]
    print(table(rows, missing))
    print(ends.table(at_ends))
    if costs:
        print(cost.table(costs))
    figures = summary(rows) | ends.summary(at_ends) | costs | {"seconds": round(time.monotonic() - start, 1), "host": host.fingerprint()}
    print(json.dumps(figures))
    goals_met = figures["caught_share"] == 1 and figures["false_alarms"] == 0
    goals_met = goals_met and figures["end_faults_caught_share"] == 1 and figures["end_false_alarms"] == 0
    if not short:
        cheap = costs["verify_s"] < costs["verify_s_goal"] and costs["verify_peak_memory_bytes"] < costs["verify_peak_memory_bytes_goal"]
        goals_met = goals_met and cheap and figures["honest_exports"] >= 200
    sys.exit(0 if goals_met else 3)


def measure(name: str, work: Path, seeds: int, sizes: Sequence[float], elsewhere: Collection[str] = ()) -> list[Outcome]:
    """All faults of one model except those `elsewhere`, and its honest exports, in a process of its own."""
    work.mkdir()
    with isolate.Isolated(name, Forge, name, work, timeout_s=_TIMEOUT_S, environment=isolate.threads(1)) as forge:
        outcomes: list[Outcome] = forge.call("faulty", 0, elsewhere, sizes)
        print(f"{name}: {len(outcomes)} faulty exports asked", flush=True)
        evidence, source_model = forge.call("evidence", 0)
        influenced = hidden.ask(name, source_model, evidence, elsewhere)
        outcomes += influenced
        print(f"{name}: {len(influenced) - 1} hidden influences asked", flush=True)
        for seed in range(1, seeds + 1):
            outcomes += forge.call("honest", seed)
        print(f"{name}: {seeds} seeds of honest exports asked", flush=True)
    return outcomes


def _elsewhere(names: Sequence[str]) -> dict[str, list[str]]:
    """By model: the faults that other models of `names` get, if each fault goes into one model only, evenly distributed."""
    taken: dict[str, list[str]] = {name: [] for name in names}
    fitting = {fault.name: [name for name in names if name in fault.models] for fault in FAULTS}
    fitting |= {kind.name: [name for name in names if name not in FLOAT32_ONLY] for kind in SMALL}
    fitting |= {kind: list(names) for kind in hidden.HIDDEN}
    for fault, models in sorted(fitting.items(), key=lambda item: len(item[1])):
        if models:
            taken[min(models, key=lambda name: len(taken[name]))].append(fault)
    return {name: [fault for fault in fitting if fault not in taken[name]] for name in names}


def table(rows: Sequence[tuple[Outcome, bool, bool | None]], missing: str) -> str:
    """One line per kind of fault: how many each check found, of those that change an answer by more than twice eager's noise."""
    kinds: dict[str, list[tuple[Outcome, bool, bool | None]]] = defaultdict(list)
    for row in rows:
        kinds[row[0].name].append(row)
    lines = [f"{'fault':40} {'exports':>7} {'smallest and largest change':>28}  {'paddleship':>10} {'allclose':>9} {'polygraphy':>10}"]
    for kind, members in kinds.items():
        if kind == "honest":
            continue
        real = [row for row in members if row[0].change > 2]
        span = f"{_size(min(row[0].change for row in members))} … {_size(max(row[0].change for row in members))} × noise"
        counts = [_share([row[0].refused for row in real]), _share([row[1] for row in real]), _share([row[2] for row in real])]
        lines.append(f"{kind:40} {len(members):7} {span:>28}  {counts[0]:>10} {counts[1]:>9} {counts[2]:>10}")
    honest = kinds["honest"]
    alarms = [sum(bool(value) for value in column) for column in zip(*((row[0].refused, row[1], row[2]) for row in honest), strict=True)]
    peer = "–" if missing else str(alarms[2])
    lines.append(f"{'false alarms in honest exports':40} {len(honest):7} {'':28}  {alarms[0]:>10} {alarms[1]:>9} {peer:>10}")
    lines += [
        f"missed: {row[0].name} in {row[0].model} ({row[0].runtime}): {row[0].change:.3g} × noise, noise ratio {row[0].noise_ratio:.3g}, "
        f"typical ratio {row[0].typical_ratio:.3g}"
        for row in rows
        if row[0].name != "honest" and row[0].change > 2 and not row[0].refused
    ]
    lines += [
        f"below twice eager's own noise, so nobody's to catch: {row[0].name} in {row[0].model} ({row[0].runtime}): {row[0].change:.2g}"
        for row in rows
        if row[0].name != "honest" and row[0].change <= 2
    ]
    lines += [f"false alarm: {row[0].model} ({row[0].runtime}): {row[0].why}" for row in honest if row[0].refused]
    if missing:
        lines.append(f"polygraphy was not asked ({missing})")
    return "\n" + "\n".join(lines)


def summary(rows: Sequence[tuple[Outcome, bool, bool | None]]) -> dict[str, float | int | dict[str, str] | None]:
    real = [row for row in rows if row[0].name != "honest" and row[0].change > 2]
    honest = [row for row in rows if row[0].name == "honest"]
    asked = all(row[2] is not None for row in rows)
    return {
        "fault_kinds": len({row[0].name for row in rows} - {"honest"}),
        "models": len({row[0].model for row in rows}),
        "faulty_exports": len(real),
        "caught_share": sum(row[0].refused for row in real) / len(real),
        "caught_share_goal": 1.0,
        "caught_by_answers_share": sum(row[0].answers_refused for row in real) / len(real),
        "allclose_caught_share": sum(row[1] for row in real) / len(real),
        "polygraphy_caught_share": sum(bool(row[2]) for row in real) / len(real) if asked else None,
        "below_noise": sum(row[0].name != "honest" and row[0].change <= 2 for row in rows),
        "honest_exports": len(honest),
        "false_alarms": sum(row[0].refused for row in honest),
        "false_alarms_goal": 0,
        "allclose_false_alarms": sum(row[1] for row in honest),
        "polygraphy_false_alarms": sum(bool(row[2]) for row in honest) if asked else None,
        "honest_noise_ratio_max": max(row[0].noise_ratio for row in honest),
        "honest_typical_ratio_max": max(row[0].typical_ratio for row in honest),
        "honest_invariance_ratio_max": max(row[0].invariance_ratio for row in honest),
        "smallest_fault_ratio": min(row[0].change for row in real),
    }


def _size(change: float) -> str:
    return f"{change:.2g}" if change < 1e12 else "∞"  # eager's answer is exactly 0, or the answer has another form


def _share(caught: Sequence[bool | None]) -> str:
    return "–" if not caught or any(value is None for value in caught) else f"{sum(map(bool, caught))}/{len(caught)}"


if __name__ == "__main__":
    main()
