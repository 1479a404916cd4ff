"""Faults in the real stages of the linear example, from data to the promoted image, with an engine of their own."""

from __future__ import annotations

import json
import platform
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.chaos import engine as engines
from benchmarks.chaos.bench import Bench, Row
from benchmarks.chaos.checkout import Checkout, Run, wait_until
from benchmarks.chaos.clock import DAY_S, Clock
from benchmarks.chaos.engine import REGISTRY, Engine
from benchmarks.chaos.judge import Undisturbed, judge
from benchmarks.chaos.means import at_work, fill, small_disk, well
from benchmarks.chaos.toy import REPOSITORY
from paddleship.config import loading
from paddleship.errors import Unavailable
from paddleship.image import python_version
from paddleship.promotion.ledger import Event, Ledger
from paddleship.reports.order import STAGES

_BASE = python_version.base_image(platform.python_version())
_DISK_BYTES = 500_000_000
_ENGINE_DISK_BYTES = 3_000_000_000
_QUICK: dict[str, Any] = {
    "train": {"epochs": 2},
    "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
    "benchmark": {"starts": 1, "samples_per_block": 16, "scenario_seconds": 1, "max_busy_share": 1.0},
    "accept": {"load_requests": 100, "load_seconds": 60, "ready_timeout_s": 300, "max_cold_start_ms": 300_000},  # the machine may be busy
    "package": {"repository": "paddleship/chaos"},
    "promote": {"rows": 50, "latency_seconds": 5, "registry": REGISTRY},
}


@dataclass
class Shipping:
    """A bench of the linear example, a checkout of it after an undisturbed run, and the engine that holds its image."""

    bench: Bench
    whole: Checkout
    engine: Engine
    what: str = "the real stages"
    _promoted: list[Undisturbed] = field(default_factory=list)

    @property
    def expected(self) -> Undisturbed:
        return self.bench.expected

    @classmethod
    @contextmanager
    def of_linear(cls) -> Iterator[Shipping]:
        with (
            tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as scratch,
            small_disk(Path(scratch) / "engine", _ENGINE_DISK_BYTES) as disk,
            engines.running(disk) as engine,
        ):
            engine.load(_BASE)
            environment = {"DOCKER_HOST": engine.host, "UV_OFFLINE": "1"}
            template = Checkout(_clone(Path(scratch) / "template/linear"), "accept", environment, engine.prefix)
            whole = template.copy(Path(scratch) / "whole")
            began = time.monotonic()
            try:
                well(whole.run())
                expected = Undisturbed.of(whole, time.monotonic() - began)
                yield cls(Bench(template, expected, Path(scratch)), whole, engine)
            finally:
                whole.remove()

    @contextmanager
    def after(self) -> Iterator[Checkout]:
        """A copy of the checkout after its run, whose image has its name again, which it loses when others build the same candidate."""
        release = json.loads((self.whole.root / "release.json").read_text(encoding="utf-8"))
        self.engine.tag(release["image_id"], release["image"])
        made = self.whole.copy(self.bench.folder / f"{time.monotonic_ns()}")
        try:
            yield made
        finally:
            made.remove()

    def promoted(self) -> Undisturbed:
        """What an undisturbed promotion leaves."""
        if not self._promoted:
            with self.after() as checkout:
                began = time.monotonic()
                well(checkout.run("promote"))
                self._promoted.append(Undisturbed.of(checkout, time.monotonic() - began))
        return self._promoted[0]

    def judge(self, checkout: Checkout, done: Run, *, kept: set[str]) -> tuple[int, list[str]]:
        """As for the toy, and the engine: no container, and no image that is not accepted."""
        repeated, wrong = judge(checkout, done, self.expected, kept=kept)
        return repeated, wrong + self._in_engine(checkout)

    def judge_promotion(self, checkout: Checkout, done: Run) -> tuple[int, list[str]]:
        """As for a run, and the ledger: the version serves since one promotion, and nothing is unfinished."""
        repeated, wrong = judge(checkout, done, self.promoted(), kept=checkout.finished())
        ledger = Ledger(checkout.root / ".paddleship/ledger.jsonl", "linear")
        count = [entry.event for entry in ledger.entries].count(Event.SERVING)
        wrong += [] if count == 1 else [f"the ledger has {count} entries of serving"]
        wrong += ["the ledger has an unfinished promotion"] if ledger.unfinished() else []
        return repeated, wrong + self._in_engine(checkout)

    def _in_engine(self, checkout: Checkout) -> list[str]:
        wrong = [f"container {name} is left" for name in self.engine.containers()]
        path = checkout.root / "release.json"
        accepted = json.loads(path.read_text(encoding="utf-8"))["image_id"] if path.exists() else None
        wrong += [] if accepted in self.engine.images() else ["the accepted image is not in the engine"]
        return wrong + [f"image {name} is left" for name in self.engine.images("--filter", "reference=*/*:unaccepted-*")]


Fault = Callable[[Shipping, Row, bool], None]


def stages_killed(shipping: Shipping, row: Row, short: bool) -> None:
    """The run is killed in each of its stages in turn; each next run continues."""
    stages = ("package", "accept") if short else STAGES
    with shipping.bench.checkout() as checkout:
        said = []
        for stage in stages:
            process = checkout.start()
            at_work(checkout, stage, process, after_s=0.5)
            process.kill()
            process.wait()
            said.append(checkout.said())
            row.times += 1
        done = checkout.run()
        row.repeated += _too_often([*said, done.said], stages)
        _, wrong = shipping.judge(checkout, done, kept=set())
        row.wrong += wrong
        row.right += 0 if wrong or row.repeated else row.times


def stages_power_off(shipping: Shipping, row: Row, short: bool) -> None:
    """All processes of a run are killed at a random moment of it; the engine goes on, with what it runs."""
    moments = random.Random(0)  # noqa: S311 the same moments in every bench
    for _ in range(1 if short else 10):
        with shipping.bench.checkout() as checkout:
            process = checkout.start()
            time.sleep(moments.uniform(0, shipping.expected.seconds))
            checkout.power_off()
            process.wait()
            kept = checkout.finished()
            row.add(shipping.judge(checkout, checkout.run(), kept=kept))


def stages_clock_jumps(shipping: Shipping, row: Row, _short: bool) -> None:
    """The wall clock of a run jumps a day ahead or back while `train` works, again while `accept` works, and is true in between.

    `benchmark` is spared: MLPerf's load generator waits for moments of the kernel's clock, which the library does not change.
    """
    clock = Clock.make(shipping.bench.folder)
    for days in (1, -1):
        clock.jump_to(0)
        with shipping.bench.checkout() as checkout:
            process = checkout.start(**clock.environment)
            for stage, seconds in (("train", days * DAY_S), ("optimize", 0), ("accept", days * DAY_S)):
                at_work(checkout, stage, process)
                clock.jump_to(seconds)
            well(checkout.end_of(process))
            kept = checkout.finished()
            row.add(shipping.judge(checkout, checkout.run(), kept=kept))


def stages_disk_full(shipping: Shipping, row: Row, short: bool) -> None:
    """The disk of the checkout and of temporary files is full while a stage works, and has space again for the next command.

    The engine has a disk of its own.
    """
    with small_disk(shipping.bench.folder / "disk", _DISK_BYTES) as disk:
        temporary = disk / "tmp"
        temporary.mkdir()
        for stage in ("optimize",) if short else STAGES:
            with shipping.bench.checkout(disk) as checkout:
                process = checkout.start(TMPDIR=str(temporary))
                at_work(checkout, stage, process, after_s=0.5)
                ballast = fill(disk)
                first = checkout.end_of(process)
                ballast.unlink()
                kept = checkout.finished()
                repeated, wrong = shipping.judge(checkout, checkout.run(TMPDIR=str(temporary)), kept=kept)
                row.add((repeated, [f"{stage}: {what}" for what in wrong + _unless_it_ended_with(Unavailable.exit_code, first)]))


def registry_down(shipping: Shipping, row: Row, _short: bool) -> None:
    """The image registry is down when a version is promoted: before its image is pushed, and while the pulled one is judged."""
    shipping.promoted()
    for pushed in (False, True):
        with shipping.after() as checkout:
            if not pushed:
                shipping.engine.kill("docker-registry")
            process = checkout.start("promote")
            if pushed:
                wait_until(lambda checkout=checkout: "push: " in checkout.said(), within_s=300)  # type: ignore[misc]
                shipping.engine.kill("docker-registry")
            first = checkout.end_of(process)
            shipping.engine.start_registry()
            repeated, wrong = shipping.judge_promotion(checkout, checkout.run("promote"))
            row.add((repeated, wrong + _unless_it_ended_with(Unavailable.exit_code, first)))


def promotion_power_off(shipping: Shipping, row: Row, short: bool) -> None:
    """All processes of a promotion are killed at a random moment of it; engine and registry go on."""
    moments, seconds = random.Random(0), shipping.promoted().seconds  # noqa: S311 the same moments in every bench
    for _ in range(1 if short else 5):
        with shipping.after() as checkout:
            process = checkout.start("promote")
            time.sleep(moments.uniform(0, seconds))
            checkout.power_off()
            process.wait()
            row.add(shipping.judge_promotion(checkout, checkout.run("promote")))


def two_promotions(shipping: Shipping, row: Row, _short: bool) -> None:
    """Two commands promote the same version at once; one may find the other's champion, and says so."""
    shipping.promoted()
    with shipping.after() as checkout:
        both = [checkout.start("promote") for _ in range(2)]
        codes = sorted(checkout.end_of(process).code for process in both)
        wrong = [] if codes in ([0, 0], [0, Unavailable.exit_code]) else [f"they ended with {codes}"]
        repeated, more = shipping.judge_promotion(checkout, checkout.run("promote"))
        row.add((repeated, wrong + more))


def engine_restarted(shipping: Shipping, row: Row, short: bool) -> None:
    """The engine is killed while a stage uses it, without and with its containers, and started again."""
    for stage, containers in (("accept", False),) if short else (("package", False), ("accept", False), ("accept", True)):
        with shipping.after() as checkout:
            _set(checkout.root, {"package": {"repository": "paddleship/chaos-again"}})  # so that both stages run
            process = checkout.start()
            at_work(checkout, stage, process, after_s=2)
            if containers:
                shipping.engine.kill_containers()
            shipping.engine.kill("dockerd")
            first = checkout.end_of(process)
            shipping.engine.start()
            kept = checkout.finished() - {"package", "accept"}
            repeated, wrong = shipping.judge(checkout, checkout.run(), kept=kept)
            row.add((repeated, wrong + _unless_it_ended_with(Unavailable.exit_code, first)))


def engine_disk_full(shipping: Shipping, row: Row, short: bool) -> None:
    """The disk of the engine is full when a stage begins to use it, and has space again for the next command."""
    for stage, before in (("package", "benchmark"),) if short else (("package", "benchmark"), ("accept", "package")):
        with shipping.after() as checkout:
            _set(checkout.root, {"package": {"repository": "paddleship/chaos-full"}})  # so that both stages run
            well(checkout.run("run", "--until", before))
            ballast = fill(shipping.engine.folder)
            first = checkout.run()
            ballast.unlink()
            kept = checkout.finished() - {stage, "accept"}
            repeated, wrong = shipping.judge(checkout, checkout.run(), kept=kept)
            row.add((repeated, [f"{stage}: {what}" for what in wrong + _unless_it_ended_with(Unavailable.exit_code, first)]))


def _too_often(said: Sequence[str], disturbed: Sequence[str]) -> int:
    """How often finished stages ran again: a stage may run once, and once more if it was disturbed."""
    runs = {stage: sum(text.count(f"Running stage '{stage}'") for text in said) for stage in STAGES}
    return sum(max(0, count - (2 if stage in disturbed else 1)) for stage, count in runs.items())


def _unless_it_ended_with(code: int, run: Run) -> list[str]:
    return [] if run.code == code else [f"the disturbed command ended with {run.code}, not {code}: {run.said[-300:]}"]


def _clone(checkout: Path) -> Path:
    """A checkout of the commit, with quick params of the linear example."""
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(checkout)], check=True)
    _set(checkout, loading.merge(loading.read(checkout / "examples/linear/params.yaml"), _QUICK))
    return checkout


def _set(checkout: Path, values: dict[str, Any]) -> None:
    merged = loading.merge(loading.read(checkout / "params.yaml"), values)
    (checkout / "params.yaml").write_text(yaml.safe_dump(merged, sort_keys=False), encoding="utf-8")


FAULTS: dict[str, Fault] = {
    "registry-down": registry_down,
    "two-promotions": two_promotions,
    "promotion-power-off": promotion_power_off,
    "engine-restarted": engine_restarted,
    "stages-killed": stages_killed,
    "stages-power-off": stages_power_off,
    "stages-clock-jumps": stages_clock_jumps,
    "stages-disk-full": stages_disk_full,
    "engine-disk-full": engine_disk_full,
}
