"""`make chaos`: faults on purpose in running pipelines, and whether the same command again ends in the right state.

The state is right if that command exits with 0, the outs equal those of an undisturbed run, no finished stage ran again, no process,
lock, worktree or half-written file is left, and MLflow and Prefect show no run as running. Names select faults. Prints a table for
people and, as the last line, its figures as JSON; exits 3 when a goal is missed. `SHORT=1` tries few faults.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from benchmarks.chaos import faults
from benchmarks.chaos.bench import Bench, Row
from paddleship.system import host


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and mounts are removed
    short = bool(os.environ.get("SHORT"))
    names = sys.argv[1:] or (faults.SHORT if short else list(faults.FAULTS))
    if strange := [name for name in names if name not in faults.FAULTS]:
        print(f"error: there is no fault {strange[0]!r}: choose among {', '.join(faults.FAULTS)}", file=sys.stderr)
        sys.exit(2)
    with Bench.of_toy() as bench:
        print(f"an undisturbed run takes {bench.expected.seconds:.1f} s", flush=True)
        rows = [_try(name, partial(fault, bench), short) for name, fault in faults.FAULTS.items() if name in names]
    _conclude(rows)


def _try(name: str, fault: Callable[[Row, bool], None], short: bool) -> Row:
    row = Row(name)
    fault(row, short)
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
