"""`make pipeline-bench`: the seconds that DVC, Prefect and MLflow add to the bare stages.

The stages are those of a toy checkout, which only write files, so that the difference is not lost in the noise of a training. Each
round measures every case beside the same stages without anything around them:

* first: in a fresh checkout, without databases
* warm: everything runs again in a checkout that had a run before; without servers, and with those of `make ui`
* cached: every stage is restored from DVC's cache
* unchanged: nothing to do
* 8 at once: runs with params of their own, in worktrees, with the servers of `make ui`
* stored: warm, with the servers of `make ui`, while they hold 10, 100 and 1,000 runs

Prints medians with their range for people and, as the last line, the figures as JSON; exits 3 when a goal is missed. `SHORT=1` is one
round of the first four, and 10 and 20 stored runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.chaos import toy
from benchmarks.chaos.checkout import Checkout, Run
from benchmarks.chaos.means import serving, well
from benchmarks.pipeline import stored
from paddleship.system import host

_STAGES = ("prepare", "train", "export")
_AT_ONCE = 8
_STORED, _FEW_STORED = (10, 100, 1000), (10, 20)
_ROUNDS, _ROUNDS_STORED = 5, 10
_GOALS = {"unchanged": 8.0, "warm_adds": 8.0, "warm_with_ui_adds": 8.0, "growth_percent": 10.0}

Seconds = dict[str, list[float]]


def main() -> None:
    short = bool(os.environ.get("SHORT"))
    seconds: Seconds = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as scratch:
        folder = Path(scratch)
        fresh = Checkout(toy.make(folder / "fresh/toy"), "export")
        for number in range(1 if short else _ROUNDS):
            _round(fresh, folder / f"round-{number}", seconds)
            _tell(seconds)
        if not short:
            _at_once(fresh, folder / "at-once", seconds)
            _tell(seconds)
        _with_stored(fresh, folder / "stored", _FEW_STORED if short else _STORED, 1 if short else _ROUNDS_STORED, seconds)
    _conclude(seconds, goals=not short)


def _round(fresh: Checkout, folder: Path, seconds: Seconds) -> None:
    """Every case of one run at a time, once, each beside the bare stages."""
    with _copied(fresh, folder / "bare") as checkout:
        seconds["bare"].append(_timed(partial(_all_bare, [checkout])))
    with _copied(fresh, folder / "dvc") as checkout:
        seconds["dvc"].append(_timed(partial(_command, checkout, "dvc", "repro", "export")))
    with _copied(fresh, folder / "run") as checkout:
        seconds["first"].append(_run(checkout))
        seconds["unchanged"].append(_run(checkout))
        before = _change(checkout)
        seconds["warm"].append(_run(checkout))
        (checkout.root / "stage.py").write_text(before, encoding="utf-8")
        seconds["cached"].append(_run(checkout))
        with serving(checkout, "prefect"), serving(checkout, "mlflow"):
            _change(checkout)
            seconds["warm_with_ui"].append(_run(checkout))


def _at_once(fresh: Checkout, folder: Path, seconds: Seconds) -> None:
    """Eight sets of bare stages at once, then eight runs at once; seconds until the last one has ended."""
    with _copied(fresh, folder / "first") as checkout:
        well(checkout.run())
        files = [checkout.root / f"overlay-{number}.yaml" for number in range(_AT_ONCE)]
        for number, file in enumerate(files):
            file.write_text(f"train: {{epochs: {number + 100}}}\n", encoding="utf-8")
        with serving(checkout, "prefect"), serving(checkout, "mlflow"):
            for number in range(3):
                copies = [checkout.copy(folder / f"bare-{number}-{place}") for place in range(_AT_ONCE)]
                seconds["bare_8_at_once"].append(_timed(partial(_all_bare, copies)))
                for copy in copies:
                    copy.remove()
                _change(checkout)
                _git(checkout, "commit", "-qam", "change")
                seconds["8_at_once"].append(_timed(partial(_all_runs, checkout, files)))


def _with_stored(fresh: Checkout, folder: Path, counts: tuple[int, ...], rounds: int, seconds: Seconds) -> None:
    """Warm runs in turns in copies of a checkout that differ in how many runs are stored, and whose servers all run all the time.

    Every other round has the reverse order, so that a machine that becomes slower or quicker does not count as growth.
    """
    with _copied(fresh, folder / "template") as template:
        well(template.run())
        with ExitStack() as copies:
            turns = []
            for count in counts:
                checkout = copies.enter_context(_copied(template, folder / str(count)))
                stored.add(checkout.root, count - stored.count(template.root) - 1)
                for name in ("prefect", "mlflow"):
                    copies.enter_context(serving(checkout, name))
                _change(checkout)
                _run(checkout)  # the first one with these servers, which is not counted
                turns.append((f"stored_{count}", checkout))
            for _ in range(rounds):
                for name, checkout in turns:
                    _change(checkout)
                    seconds[name].append(_run(checkout))
                turns.reverse()
                _tell(seconds)


def _change(checkout: Checkout) -> str:
    """Change the code of every stage without changing what it does. Returns the code before."""
    path = checkout.root / "stage.py"
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}# {time.time_ns()}\n", encoding="utf-8")
    return before


@contextmanager
def _copied(checkout: Checkout, target: Path) -> Iterator[Checkout]:
    made = checkout.copy(target)
    try:
        yield made
    finally:
        made.remove()


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _run(checkout: Checkout) -> float:
    return _timed(lambda: well(checkout.run()))


def _all_runs(checkout: Checkout, files: list[Path]) -> None:
    """Runs of one checkout at once, each with params of its own. Raises RuntimeError with what one said that failed."""
    started = []
    for file in files:
        command = [sys.executable, "-m", "paddleship.cli.main", "run", "--until", "export", "--params", file.name]
        output = file.with_suffix(".log")
        with output.open("wb") as log:
            started.append((subprocess.Popen(command, cwd=checkout.root, env=checkout.env(), stdout=log, stderr=log), output))
    for process, output in started:
        well(Run(process.wait(), output.read_text(errors="replace", encoding="utf-8")))


def _all_bare(checkouts: list[Checkout]) -> None:
    """The bare stages in each checkout at once, one stage after the other, each as DVC starts it."""
    command = " && ".join(f"{sys.executable} stage.py {stage}" for stage in _STAGES)
    processes = []
    for checkout in checkouts:
        with checkout.log.open("wb") as log:
            processes.append(subprocess.Popen(["/bin/sh", "-c", command], cwd=checkout.root, env=checkout.env(), stdout=log, stderr=log))
    _all(processes)


def _all(processes: list[subprocess.Popen[bytes]]) -> None:
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"commands that nothing disturbs ended with {codes}")


def _command(checkout: Checkout, module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=checkout.root, env=checkout.env(), capture_output=True, check=True)


def _git(checkout: Checkout, *arguments: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=checkout.root, check=True)


def _tell(seconds: Seconds) -> None:
    print("measured: " + ", ".join(f"{name} {values[-1]:.1f}" for name, values in seconds.items()), flush=True)


def _with_differences(seconds: Seconds) -> Seconds:
    """With what each case adds to the bare stages of its round, and how much more a run takes beside many stored runs than few."""
    found = dict(seconds)
    for name in ("dvc", "first", "warm", "warm_with_ui"):
        found[f"{name}_adds"] = [whole - bare for whole, bare in zip(seconds[name], seconds["bare"], strict=True)]
    if "8_at_once" in seconds:
        pairs = zip(seconds["8_at_once"], seconds["bare_8_at_once"], strict=True)
        found["8_at_once_add_each"] = [(whole - bare) / _AT_ONCE for whole, bare in pairs]
    few, *_, many = (seconds[name] for name in seconds if name.startswith("stored_"))
    found["growth_percent"] = [100 * (b / a - 1) for a, b in zip(few, many, strict=True)]
    return found


def _conclude(seconds: Seconds, *, goals: bool) -> None:
    samples = _with_differences(seconds)
    figures = {name: round(statistics.median(values), 2) for name, values in samples.items()}
    print()
    for name, value in figures.items():
        goal = f"   goal: under {_GOALS[name]:g}" if name in _GOALS else ""
        print(f"{name:24}{value:8.1f}   {min(samples[name]):.1f} to {max(samples[name]):.1f}{goal}")
    print(json.dumps({**figures, **{f"goal_{name}": goal for name, goal in _GOALS.items()}, "host": host.fingerprint()}))
    sys.exit(3 if goals and any(figures[name] >= goal for name, goal in _GOALS.items()) else 0)


if __name__ == "__main__":
    main()
