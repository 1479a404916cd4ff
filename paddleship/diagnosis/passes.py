"""Find the optimisation pass that makes answers wrong, if they are right without optimisation.

The log of the runtime names the passes that ran. Some of them are switched off at a time, in a process that may crash. A pass is
only reported if switching off that pass alone makes the answers right.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddleship.errors import CandidateError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.system.isolate import Revived, threads

_LOGGED = re.compile(r"Running PIR pass \[(\w+)\]|GraphTransformer (\w+) modified: 1 ")
_OFF = {"optimization_level": 0}
_ESSENTIAL = {"inplace_pass"}  # runs with optimisation off, but can be switched off
_MOST = 3  # passes that must be switched off together; with more, no pass is reported


def find(folder: Path, inputs: Batch, is_right: Callable[[Arrays], bool], *, timeout_s: float) -> Finding | None:
    """The pass (or passes) without which the candidate in `folder` is right; None if nothing is wrong or optimisation is not the cause."""
    candidate = Candidate.load(folder)
    environment = {**threads(candidate.threads), "GLOG_minloglevel": "0"}
    with Revived(candidate.name, PassWorker, folder, timeout_s=timeout_s, environment=environment) as worker:

        def cures(options: dict[str, Any]) -> bool:
            try:
                return is_right(worker.call("run", options, inputs))
            except CandidateError:
                return False

        if cures({}) or not cures(_OFF):
            return None
        everything, essential = _names(worker, {}), set(_names(worker, _OFF)) - _ESSENTIAL
        optional = [name for name in dict.fromkeys(reversed(everything)) if name not in essential]  # a late pass is nearer to the error
        passes = smallest(optional, lambda names: cures({"without_passes": list(names)}))
    off = "with all optimisation switched off the answers are right"
    if not passes:
        return Finding("wrong-pass", "error", f"{off}, and no single pass is to blame", "ship a candidate without this optimiser")
    pass_names = " and ".join(passes)
    message = f"{off}; switching off {pass_names} alone is enough"
    return Finding("wrong-pass", "error", message, f"ship {_without(candidate, passes)}, and report it to the runtime", layer=pass_names)


def _without(candidate: Candidate, passes: Sequence[str]) -> str:
    """The candidate without these passes; None if passes cannot be named."""
    if candidate.options.get("onednn") and candidate.precision == "float32" and all("onednn" in name for name in passes):
        return f"paddle, which is {candidate.name} without {' and '.join(passes)} and all else of oneDNN"
    return f"another candidate than {candidate.name}, since none by name leaves out {' and '.join(passes)} alone"


def smallest(names: Sequence[str], cures: Callable[[Sequence[str]], bool]) -> list[str]:
    """A smallest set of names (at most three) that makes the answers right, by bisection; empty if there is none."""
    chosen: list[str] = []
    while len(chosen) < _MOST:
        if not names or not cures([*names, *chosen]):
            return []
        low, high = 0, len(names)  # names[:high] with those found so far make it right, names[:low] do not
        while high - low > 1:
            middle = (low + high) // 2
            if cures([*names[:middle], *chosen]):
                high = middle
            else:
                low = middle
        chosen.append(names[high - 1])
        if cures(chosen):
            return chosen
        names = names[: high - 1]
    return []


def _names(worker: Revived, options: dict[str, Any]) -> list[str]:
    """The passes that run while loading, in order; if loading crashes, those that were logged before."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        with suppress(CandidateError):  # if loading crashes, the log ends with the pass that crashed
            worker.call("log", options, log.name)
        names = [one or other for one, other in _LOGGED.findall(log.read())]
    return [name.replace("mkldnn", "onednn") for name in names]  # some passes log their old name, which delete_pass does not know


class PassWorker:
    """The object in the child process: the candidate, loaded with other options each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, options: dict[str, Any], inputs: Batch) -> Arrays:
        return runtimes.load(self._folder, options=options).run(inputs)

    def log(self, options: dict[str, Any], path: str) -> None:
        """Load the candidate, with the runtime's log of passes written to a file."""
        copies = os.dup(1), os.dup(2)
        with Path(path).open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            try:
                runtimes.load(self._folder, options={**options, "log_passes": True})
            finally:
                for stream, copy in zip((1, 2), copies, strict=True):
                    os.dup2(copy, stream)
                    os.close(copy)
