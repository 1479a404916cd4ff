"""The checks of `make gpu-check`, each a row with what was measured and whether it passed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.choice.models import MODELS
from benchmarks.gpu import overflow, serving, trials, under_load
from benchmarks.gpu.trials import GRAPH, HALF, ON_CPU, PLAIN, TF32, Trial
from paddleship.benchmark.system_metrics import LoadMonitor
from paddleship.config.sections.verify import Verify
from paddleship.proof.evidence import Evidence
from paddleship.reports.statuses import Status
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.runtimes import registry
from paddleship.system import host

_ROOT = Path(__file__).parents[2]
_ROWS = 1000
_REGRET = 0.05
_CALLS = 200
_CALLERS, _LOAD_S = 8, 10.0
_BUDGET_S, _LAST_S = 480, 90  # seconds of all, and those that the checks after the stages take


_CANDIDATES = ("paddle", ON_CPU, PLAIN, GRAPH, TF32, HALF)


@dataclass(frozen=True)
class Row:
    """One check: of what, what was measured, and whether it passed; None if it could not be decided, with the reason in `measured`."""

    check: str
    subject: str
    measured: str
    passed: bool | None
    value: float | None = None

    @property
    def verdict(self) -> str:
        return "not decided" if self.passed is None else "passed" if self.passed else "FAILED"


def run(names: Sequence[str], work: Path) -> int:
    """Run all checks, print the table and the figures, and return the exit code."""
    if unknown := [name for name in names if name not in MODELS]:
        print(f"error: no model is named {unknown[0]!r}: choose of {', '.join(MODELS)}", file=sys.stderr)
        return 2
    if reason := trials.missing():
        print(f"error: gpu-check needs an NVIDIA GPU, and {reason}", file=sys.stderr)
        return 4
    start = time.monotonic()
    shutil.rmtree(work / "models", ignore_errors=True)
    tried = trials.run(names or trials.DEFAULT, (work / "models").absolute(), candidates=_CANDIDATES, deadline=start + _BUDGET_S - _LAST_S)
    rows = [row for trial in tried for row in of_stages(trial)]
    rows += [of_libraries(trial, sys.path) for trial in tried if not trial.failed and _proven(trial, PLAIN)]
    ready = [trial for trial in tried if not trial.failed and _proven(trial, PLAIN)]
    if ready:
        served = next((trial for trial in ready if _proven(trial, GRAPH)), ready[0])
        rows += guarded("serving", served.name, lambda: list(of_candidates(served, work)))
        rows += guarded("CUDA graphs", served.name, lambda: [of_graph(served)]) if _proven(served, GRAPH) else []
    rows += guarded("float16 overflow", "squares", lambda: [of_overflow(work, runtime=PLAIN)])
    rows += guarded("missing library", PLAIN, lambda: [of_missing_library(work)])
    seconds = time.monotonic() - start
    print(table(rows))
    print(json.dumps(figures(rows, seconds)))
    return 0 if rows and all(row.passed is not False for row in rows) else 3


def guarded(check: str, subject: str, rows: Callable[[], list[Row]]) -> list[Row]:
    """The rows of a check; one failed row with the error if it raises one, so that the others run."""
    try:
        return rows()
    except Exception as error:
        return [Row(check, subject, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", False)]


def of_stages(trial: Trial) -> Iterator[Row]:
    """What the reports of verify and benchmark say about one model."""
    if trial.failed:
        yield Row("stages", trial.name, trial.failed, None if trial.late else False)
        return
    limit = Verify().noise_limit
    noise = trial.row("verify", TF32).get("noise_ratio")
    yield Row(
        "TF32 would be refused as float32",
        trial.name,
        f"noise ratio {_short(noise)}, limit {limit:g}",
        noise is not None and noise > limit,
        noise,
    )
    for candidate in (PLAIN, TF32, HALF):
        row = trial.row("verify", candidate)
        ratio, flips = _short(row.get("noise_ratio")), _short(row.get("flip_rate"))
        note = f"{row.get('status')}, noise ratio {ratio}, flip rate {flips} {row.get('reason') or ''}"
        yield Row(f"{candidate} is proven", trial.name, note.strip(), _proven(trial, candidate), row.get("noise_ratio"))
    graph, made = trial.row("verify", GRAPH), trial.row("optimize", GRAPH)
    refused = "captures no CUDA graph" in str(made.get("reason"))
    yield Row(
        "the CUDA graph is proven, or refused with the reason",
        trial.name,
        str(made.get("reason") or graph.get("status")),
        refused or _proven(trial, GRAPH),
    )
    for candidate in (ON_CPU, PLAIN, GRAPH, TF32, HALF):
        if (p50 := trial.row("benchmark", candidate).get("p50_ms")) is not None:
            yield Row(
                f"{candidate}: p50 of one row", trial.name, f"{p50:.3g} ms{', chosen' if candidate == trial.chosen else ''}", True, p50
            )
    if trial.regret is not None:
        value = trial.regret.value
        yield Row(
            "the choice is within 5% of the best",
            trial.name,
            f"{trial.chosen}, {value:.1%} slower than {trial.regret.best}",
            value <= _REGRET,
            value,
        )
    else:
        yield Row("the choice is within 5% of the best", trial.name, "there was no time to measure again", None)


def of_libraries(trial: Trial, folders: Sequence[str]) -> Row:
    """The libraries of NVIDIA that the plain candidate used in verify, to which its image can be reduced; `folders`: the import path."""
    patterns, record = registry.of(PLAIN).optional_libraries, trial.folder / "parity/mapped_libraries.json"
    mapped = json.loads(record.read_text(encoding="utf-8"))["candidates"].get(PLAIN, []) if record.exists() else []
    sizes = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for folder in folders
        for each in patterns
        for path in Path(folder).glob(each)
    }
    kept, every = (sum(sizes.get(name, 0) for name in names) / 1e6 for names in (mapped, sizes))
    note = f"{len(mapped)} of {len(sizes)} used, {kept:,.0f} of {every:,.0f} MB: {', '.join(Path(name).name for name in mapped)}"
    return Row("the libraries that verify saw in use are known", trial.name, note, bool(mapped) and set(mapped) <= set(sizes), kept)


def of_candidates(trial: Trial, work: Path) -> Iterator[Row]:
    """The served candidate, and another process on the GPU meanwhile."""
    parity = trial.folder / "parity"
    folder = serving.as_packaged(trial.folder / "candidates" / PLAIN, parity, work / "served")
    with serving.server(folder, work / "server.log") as port:
        served = serving.ask(port, folder, parity, rows=_ROWS, noise_limit=Verify().noise_limit)
        others = LoadMonitor(on_gpu=True).seen().gpu_processes
        loaded = under_load.run(port, folder, parity, callers=_CALLERS, seconds=_LOAD_S, noise_limit=Verify().noise_limit)
    note = f"{served.right:,} of {served.asked:,} rows, {served.per_s:.0f} requests/s of one caller {served.problem}".strip()
    yield Row("the served model answers as eager", trial.name, note, served.right == served.asked, served.per_s)
    subject = f"{trial.name}, {_CALLERS} callers"
    yield Row(
        "the server under load answers as eager", subject, str(loaded), bool(loaded.took_ms) and not loaded.faults, loaded.requests_per_s
    )
    seen = None if not others else True
    yield Row(
        "another process on the GPU is seen", trial.name, f"{others} seen" if others else "the driver shows no processes here", seen, others
    )


def of_graph(trial: Trial) -> Row:
    """Whether CUDA graphs of the plain candidate give the same bits as its plain runs, and how fast both are for one row."""
    evidence = Evidence.load(trial.folder / "parity").only(lambda case: bool(case.rows))
    folder = trial.folder / "candidates" / PLAIN
    one, other = runtimes.load(folder), runtimes.load(folder, options={"cuda_graph": True})
    different = 0
    for case in evidence.cases[:20]:
        for _ in range(2):  # the first answer of a shape comes from a plain run
            answers = one.run(case.inputs), other.run(case.inputs)
            different += any(not np.array_equal(answers[0][key], answers[1][key], equal_nan=True) for key in answers[0])
    row = min(evidence.cases, key=lambda case: len(case.rows)).inputs
    times = [_p50_ms(lambda runtime=runtime: runtime.run(row)) for runtime in (one, other)]
    note = f"{different} of {2 * len(evidence.cases[:20])} answers differ; one row {times[0]:.3g} ms plain, {times[1]:.3g} ms as a graph"
    return Row("CUDA graphs give the same bits", trial.name, note, different == 0, times[0] / times[1])


def of_overflow(work: Path, *, runtime: str) -> Row:
    """A program that overflows in float16: converted as a whole and converted here, both on this machine's runtime."""
    whole, kept, note = overflow.finite_shares(work / "overflow", runtime)
    return Row(
        "float16 keeps in float32 what overflows",
        "squares",
        f"finite: {whole:.0%} converted as a whole, {kept:.0%} here; {note}",
        whole < 1 and kept == 1,
        kept,
    )


def of_missing_library(work: Path) -> Row:
    """A process that finds none of NVIDIA's packages must refuse the candidate and name what is missing."""
    import onnxruntime

    site, hidden = Path(onnxruntime.__file__).parents[1], work / "without-nvidia"
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    for path in site.iterdir():
        if not path.name.startswith("nvidia"):
            (hidden / path.name).symlink_to(path)
    source = overflow.program(work / "missing-library")
    code = f"from pathlib import Path; from paddleship.shipped.computing import runtimes; runtimes.load(Path({str(source)!r}))"
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | {"PYTHONPATH": f"{hidden}:{_ROOT}"}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environment, cwd=hidden, capture_output=True, encoding="utf-8", check=False)
    last = ([*done.stderr.strip().splitlines()] or ["it loaded, so the system has these libraries"])[-1]
    passed = "is missing: it is in the package" in last if done.returncode else None
    return Row("a missing library is named", PLAIN, last.partition(": ")[2] or last, passed)


def table(rows: Sequence[Row]) -> str:
    """All rows, in columns."""
    widths = [max(len(getattr(row, name)) for row in rows) for name in ("check", "subject")]
    return "\n".join(f"{row.verdict:11}  {row.check:{widths[0]}}  {row.subject:{widths[1]}}  {row.measured}" for row in rows)


def figures(rows: Sequence[Row], seconds: float) -> dict[str, object]:
    """The same as flat figures, with counts and the facts about this host."""
    named = {f"{row.subject}: {row.check}": row.value if row.value is not None else row.passed for row in rows}
    counts = {"passed": sum(row.passed is True for row in rows), "failed": sum(row.passed is False for row in rows)}
    undecided = [f"{row.subject}: {row.check}" for row in rows if row.passed is None]
    times = {"seconds": round(seconds, 1), "seconds_goal": _BUDGET_S}
    return {**counts, "failed_goal": 0, "not_decided": undecided, **times, **named, "host": host.fingerprint()}


def _proven(trial: Trial, candidate: str) -> bool:
    return trial.row("verify", candidate).get("status") == Status.PROVEN


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _p50_ms(call: Callable[[], object]) -> float:
    samples = []
    for _ in range(_CALLS):
        start = time.perf_counter()
        call()
        samples.append(1000 * (time.perf_counter() - start))
    return float(np.median(samples))
