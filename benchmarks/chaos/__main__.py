"""`make chaos`: faults on purpose in running pipelines, and whether the same command again ends in the right state.

The state is right if that command exits with 0, the outs equal those of an undisturbed run, no finished stage ran again, no process,
lock, worktree or half-written file is left, and MLflow and Prefect show no run as running. Names select faults. Prints a table for
people and, as the last line, its figures as JSON; exits 3 when a goal is missed. `SHORT=1` tries few faults.

Some faults disturb the real stages of the linear example, a promotion, an engine or an image registry. They need root and dockerd,
because they start an engine and a registry of their own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from benchmarks.chaos import engine, faults, shipping
from benchmarks.chaos.bench import Bench, Row
from benchmarks.chaos.shipping import Shipping
from paddleship.errors import PaddleshipError
from paddleship.system import host


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and mounts are removed
    short = bool(os.environ.get("SHORT"))
    known = [*faults.FAULTS, *shipping.FAULTS]
    names = sys.argv[1:] or (faults.SHORT if short else known)
    if strange := [name for name in names if name not in known]:
        print(f"error: there is no fault {strange[0]!r}: choose among {', '.join(known)}", file=sys.stderr)
        sys.exit(2)
    try:
        if any(name in shipping.FAULTS for name in names):
            engine.require()
        toys = _rows(faults.FAULTS, Bench.of_toy, names, short)
        _conclude(toys + _rows(shipping.FAULTS, Shipping.of_linear, names, short))
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _rows(
    known: Mapping[str, Callable[[Any, Row, bool], None]],
    bench_of: Callable[[], AbstractContextManager[Bench | Shipping]],
    names: Collection[str],
    short: bool,
) -> list[Row]:
    """The rows of the named faults among those of one bench, which is only made for them."""
    wanted = {name: fault for name, fault in known.items() if name in names}
    if not wanted:
        return []
    with bench_of() as bench:
        print(f"an undisturbed run of {bench.what} takes {bench.expected.seconds:.1f} s", flush=True)
        return [_try(name, partial(fault, bench), short) for name, fault in wanted.items()]


def _try(name: str, fault: Callable[[Row, bool], None], short: bool) -> Row:
    row = Row(name)
    try:
        fault(row, short)
    except RuntimeError as error:  # a command that should have ended well did not
        row.add((0, [str(error)]))
    print(f"{name}: {_outcome(row)}", flush=True)
    for reason in dict.fromkeys(row.wrong):
        print(f"  {reason} ({row.wrong.count(reason)} times)", flush=True)
    return row


def _conclude(rows: list[Row]) -> None:
    print(f"\n{'fault':24}{'times':>7}{'right':>7}{'stages repeated':>17}   outcome")
    for row in rows:
        print(f"{row.fault:24}{row.times:>7}{row.right:>7}{row.repeated:>17}   {_outcome(row)}")
    figures = {f"{row.fault}_{key}": getattr(row, key) for row in rows for key in ("times", "right", "repeated")}
    missed = sum(row.times - row.right for row in rows)
    print(json.dumps({**figures, "missed": missed, "goal_missed": 0, "host": host.fingerprint()}))
    sys.exit(3 if missed else 0)


def _outcome(row: Row) -> str:
    return "right every time" if row.right == row.times else f"wrong {row.times - row.right} times"


if __name__ == "__main__":
    main()
