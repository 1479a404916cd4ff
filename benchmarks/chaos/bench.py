"""The rows of the table, and the checkouts that faults are tried in."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos import toy
from benchmarks.chaos.checkout import Checkout
from benchmarks.chaos.judge import Undisturbed, judge
from benchmarks.chaos.means import well


@dataclass
class Row:
    """A fault in the table: how often it was tried, how often the state was right afterwards, and what was lost or wrong."""

    fault: str
    times: int = 0
    right: int = 0
    repeated: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, found: tuple[int, list[str]]) -> None:
        repeated, wrong = found
        self.times += 1
        self.right += not wrong and not repeated
        self.repeated += repeated
        self.wrong += wrong


@dataclass(frozen=True)
class Bench:
    """A checkout to copy, what an undisturbed run of it leaves, and the folder for copies."""

    template: Checkout
    expected: Undisturbed
    folder: Path
    what: str = "the toy's stages"

    @classmethod
    @contextmanager
    def of_toy(cls) -> Iterator[Bench]:
        """The toy, with the databases that a first run makes."""
        with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch)
            template = Checkout(toy.make(folder / "template/toy"), "export")
            first = template.copy(folder / "first")
            well(first.run())
            (template.root / ".paddleship/prefect").mkdir(parents=True)
            for name in ("mlflow.db", "prefect/prefect.db"):
                with closing(sqlite3.connect(first.root / ".paddleship" / name)) as database:
                    database.execute("pragma wal_checkpoint(truncate)")
                shutil.copy(first.root / ".paddleship" / name, template.root / ".paddleship" / name)
            first.remove()
            whole = template.copy(folder / "whole")
            began = time.monotonic()
            well(whole.run())
            expected = Undisturbed.of(whole, time.monotonic() - began)
            whole.remove()
            yield cls(template, expected, folder)

    @contextmanager
    def checkout(self, folder: Path | None = None, **environment: str) -> Iterator[Checkout]:
        """A copy of the checkout, which is removed afterwards with all of its processes."""
        made = self.template.copy((folder or self.folder) / f"{time.monotonic_ns()}", **environment)
        try:
            yield made
        finally:
            made.remove()

    def again(self, checkout: Checkout) -> tuple[int, list[str]]:
        """Give the same command again, and judge what it leaves."""
        kept = checkout.finished()
        return judge(checkout, checkout.run(), self.expected, kept=kept)
