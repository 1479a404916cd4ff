"""Compare our choice with the defaults of other tools, interleaved in one run: ratios with intervals, flips and score against eager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.choice import peers
from benchmarks.choice.peers import PEERS
from paddleship.benchmark import benchmarking
from paddleship.benchmark.workload import Workload
from paddleship.config.params import Params
from paddleship.errors import BadInput
from paddleship.proof import parity
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.statistics.estimates import Difference, Interval
from paddleship.system import isolate, locks
from paddleship.system.isolate import Factory, Isolated

OURS = "our choice"


@dataclass(frozen=True)
class Row:
    """One participant beside our choice; `ratio` is its latency over ours, `word` says which of the two is faster, beyond noise.

    `flip_rate` and `score` are those of verify's rows, `refused` names the checks of verify that its answers fail. `reason` says
    why it did not run.
    """

    title: str
    version: str = ""
    p50_ms: float | None = None
    ratio: Interval | None = None
    word: Difference | None = None
    flip_rate: float | None = None
    score: float | None = None
    refused: tuple[str, ...] = ()
    reason: str = ""

    @property
    def faster(self) -> bool:
        return self.word == Difference.BETTER


def compare(settings: Params, chosen: str, names: Sequence[str], scratch: Path) -> dict[str, Row]:
    """A row for our choice and for each named peer; one that cannot be made, loaded or asked is a row with its reason."""
    folder = Path(settings.paths.candidates)
    rows = {OURS: Row(f"our choice: {chosen}"), **{name: Row(PEERS[name].title) for name in names}}
    participants: dict[str, Factory] = {OURS: (runtimes.load, (folder / chosen,))}
    for name in names:
        print(f"{settings.name}: {PEERS[name].title}", flush=True)
        made = _make(settings, name, scratch)
        if isinstance(made, str):
            rows[name] = Row(PEERS[name].title, reason=made)
        else:
            participants[name] = made
    precisions = {OURS: Candidate.read(folder / chosen).precision, **{name: PEERS[name].precision for name in names}}
    judged = {name: _judge(settings, load, precisions[name]) for name, load in participants.items()}
    for name, found in judged.items():
        if isinstance(found, str):
            rows[name] = Row(rows[name].title, reason=found)
    able = {name: load for name, load in participants.items() if not isinstance(judged[name], str)}
    if OURS not in able:
        return rows
    batches = Workload.of(Path(settings.paths.prepared)).batches([1])
    with locks.turn_on_machine("benchmark"):
        measured = benchmarking.compare(able, batches, settings.benchmark, thread_count=settings.optimize.threads, baseline=OURS)
    for name in able:
        found, gain, judgement = measured.measurements[name], measured.speedup(name), judged[name]
        if found.reason or isinstance(judgement, str):
            rows[name] = Row(rows[name].title, reason=found.reason)
            continue
        rows[name] = Row(
            rows[name].title,
            _version(name),
            found.percentiles(1)["p50_ms"],
            Interval(1 / gain.value, 1 / gain.high, 1 / gain.low) if gain else None,
            measured.difference(name),
            judgement.metrics.get("flip_rate"),
            judgement.metrics.get("metric"),
            tuple(check.name for check in judgement.checks if not check.passed),
        )
    return rows


def _make(settings: Params, name: str, scratch: Path) -> Factory | str:
    """The function and arguments that load a peer's form, or the reason why there is none."""
    source = peers.float_file(Path(settings.paths.candidates))
    if source is None:
        return "there is no float ONNX file of this model that takes every size"
    scratch.mkdir(parents=True, exist_ok=True)
    calibration = scratch / "rows.npz"
    if not calibration.exists():
        peers.save_rows(Path(settings.paths.prepared), calibration)
    reason = PEERS[name].make((source / "model.onnx").resolve(), calibration, scratch / name)
    return reason or PEERS[name].load(scratch / name, source)


def _judge(settings: Params, load: Factory, precision: str) -> Judgement | str:
    """The checks of verify on its answers to the cases of the proof, or the reason why there are none."""
    evidence = Evidence.load(Path(settings.paths.parity))
    environment = isolate.threads(settings.optimize.threads)
    try:
        with Isolated("a peer", load[0], *load[1], timeout_s=settings.verify.timeout_s, environment=environment) as child:
            answers = [child.call("run", case.inputs) for case in evidence.cases]
        return parity.judge(evidence, answers, limits=settings.verify, precision=precision)
    except BadInput as error:
        return str(error)


def _version(name: str) -> str:
    if name == OURS:
        return ""
    versions = PEERS[name].environment.versions()
    return ", ".join(f"{tool} {versions.get(tool, 'unknown')}" for tool in PEERS[name].tools)
