"""Faults in runs of the toy checkout: each disturbs a run, gives the same command again, and adds to its row of the table."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from benchmarks.chaos.bench import Bench, Row
from benchmarks.chaos.clock import DAY_S, Clock
from benchmarks.chaos.means import at_work, fill, serving, slow, small_disk, well

_STAGES = ("prepare", "train", "export")
_DISK_BYTES = 60_000_000

Fault = Callable[[Bench, Row, bool], None]


def killed(bench: Bench, row: Row, short: bool) -> None:
    """`paddleship run` is killed while a stage works."""
    for stage in _STAGES[1:2] if short else _STAGES:
        with bench.checkout() as checkout:
            process = checkout.start(**slow(stage))
            at_work(checkout, stage, process)
            process.kill()
            process.wait()
            row.add(bench.again(checkout))


def power_off(bench: Bench, row: Row, short: bool) -> None:
    """All processes of a run are killed at a random moment of it."""
    moments = random.Random(0)  # noqa: S311 the same moments in every bench
    for _ in range(2 if short else 30):
        with bench.checkout() as checkout:
            process = checkout.start()
            time.sleep(moments.uniform(0, bench.expected.seconds))
            checkout.power_off()
            process.wait()
            row.add(bench.again(checkout))


def prefect_restarted(bench: Bench, row: Row, _short: bool) -> None:
    """Prefect's server is killed while a stage works, and started again."""
    with bench.checkout() as checkout, serving(checkout, "prefect") as server:
        process = checkout.start(**slow("train"))
        at_work(checkout, "train", process)
        server.kill()
        server.start()
        checkout.end_of(process)
        row.add(bench.again(checkout))


def mlflow_down(bench: Bench, row: Row, _short: bool) -> None:
    """MLflow's server is killed while a stage works, and is back for the next command."""
    with bench.checkout() as checkout, serving(checkout, "mlflow") as server:
        process = checkout.start(**slow("train"))
        at_work(checkout, "train", process)
        server.kill()
        well(checkout.end_of(process))
        server.start()
        well(checkout.run("deliver"))
        row.add(bench.again(checkout))


def mlflow_database_down(bench: Bench, row: Row, _short: bool) -> None:
    """MLflow's database takes no writes from the middle of a run to its end."""
    with bench.checkout() as checkout:
        process = checkout.start(**slow("train"))
        at_work(checkout, "train", process)
        with closing(sqlite3.connect(checkout.root / ".paddleship/mlflow.db", timeout=60)) as database:
            database.execute("begin exclusive")
            well(checkout.end_of(process))
        well(checkout.run("deliver"))
        row.add(bench.again(checkout))


def mlflow_database_begun(bench: Bench, row: Row, short: bool) -> None:
    """All processes of the first run are killed at a random moment while it creates MLflow's database."""
    moments = random.Random(0)  # noqa: S311 the same moments in every bench
    for _ in range(2 if short else 20):
        with bench.checkout() as checkout:
            database = checkout.root / ".paddleship/mlflow.db"
            database.unlink()
            process = checkout.start()
            while not any(database.parent.glob(".mlflow.db.part*")):
                if process.poll() is not None or database.exists():
                    raise RuntimeError("the run created MLflow's database too quickly to be disturbed")
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 1))
            checkout.power_off()
            process.wait()
            row.add(bench.again(checkout))


def remote_down(bench: Bench, row: Row, _short: bool) -> None:
    """DVC's remote is down when a run pushes."""
    with bench.checkout() as checkout:
        remote = checkout.root.parent / "paddleship-remote"
        shutil.rmtree(remote, ignore_errors=True)
        remote.write_text("down", encoding="utf-8")
        well(checkout.run())
        remote.unlink()
        found = bench.again(checkout)
        lost = [] if list((remote / "files").rglob("*")) else ["the remote has no data"]
        row.add((found[0], found[1] + lost))


def disk_full(bench: Bench, row: Row, short: bool) -> None:
    """The disk is full while a stage works, and has space again for the next command."""
    with small_disk(bench.folder / "disk", _DISK_BYTES) as disk:
        for stage in _STAGES[1:2] if short else _STAGES:
            with bench.checkout(disk) as checkout:
                process = checkout.start(**slow(stage))
                at_work(checkout, stage, process)
                ballast = fill(disk)
                first = checkout.end_of(process)
                ballast.unlink()
                repeated, wrong = bench.again(checkout)
                row.add((repeated, wrong + ([] if first.code > 0 else [f"the run on a full disk ended with {first.code}"])))


def clock_jumps(bench: Bench, row: Row, _short: bool) -> None:
    """The wall clock of a run jumps a day ahead, or a day back, while a stage works."""
    clock = Clock.make(bench.folder)
    for days in (1, -1):
        clock.jump_to(0)
        with bench.checkout() as checkout:
            process = checkout.start(**slow("train"), **clock.environment)
            at_work(checkout, "train", process)
            clock.jump_to(days * DAY_S)
            well(checkout.end_of(process))
            row.add(bench.again(checkout))


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "power-off": power_off,
    "prefect-restarted": prefect_restarted,
    "mlflow-down": mlflow_down,
    "mlflow-database-down": mlflow_database_down,
    "mlflow-database-begun": mlflow_database_begun,
    "remote-down": remote_down,
    "disk-full": disk_full,
    "clock-jumps": clock_jumps,
}
SHORT = ("killed", "power-off", "remote-down")
