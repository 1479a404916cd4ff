"""Which optimisation pass makes the answers wrong, when switching all of them off makes them right.

The runtime itself tells the passes it ran, in its log; some of them are switched off at a time, in a process that may
die. Nothing is believed of a pass before switching off that pass alone has cured the answers.
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
from paddleship.shipped import runtimes
from paddleship.shipped.common.candidate import Candidate
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import Arrays
from paddleship.system.isolate import Revived, threads

_LOGGED = re.compile(r"Running PIR pass \[(\w+)\]|GraphTransformer (\w+) modified: 1 ")
_OFF = {"optimization_level": 0}
_ESSENTIAL = {"inplace_pass"}  # runs with everything switched off, and can be switched off all the same
_MOST = 3  # passes that must be switched off together before nothing can be said


def find(folder: Path, inputs: Batch, is_right: Callable[[Arrays], bool], *, timeout_s: float) -> Finding | None:
    """The pass (or the few) whose absence cures the candidate in `folder`; None when nothing is wrong, or not by the optimiser."""
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
        optional = [name for name in dict.fromkeys(reversed(everything)) if name not in essential]  # a late pass is nearer to the fault
        found = smallest(optional, lambda names: cures({"without_passes": list(names)}))
    off = "with all optimisation switched off the answers are right"
    if not found:
        return Finding("wrong-pass", "error", f"{off}, and no single pass is to blame", "ship a candidate without this optimiser")
    words = " and ".join(found)
    message = f"{off}; switching off {words} alone is enough"
    return Finding("wrong-pass", "error", message, f"ship {_without(candidate, found)}, and report it to the runtime", layer=words)


def _without(candidate: Candidate, found: Sequence[str]) -> str:
    """The candidate that does not run these passes, where there is one by name."""
    if candidate.options.get("onednn") and candidate.precision == "float32" and all("onednn" in name for name in found):
        return f"paddle, which is {candidate.name} without {' and '.join(found)} and all else of oneDNN"
    return f"another candidate than {candidate.name}, since none by name leaves out {' and '.join(found)} alone"


def smallest(names: Sequence[str], cures: Callable[[Sequence[str]], bool]) -> list[str]:
    """A smallest set of names (of three at most) that cures, by halving; empty when there is none."""
    found: list[str] = []
    while len(found) < _MOST:
        if not names or not cures([*names, *found]):
            return []
        low, high = 0, len(names)  # names[:high] cure together with what was found, names[:low] do not
        while high - low > 1:
            middle = (low + high) // 2
            if cures([*names[:middle], *found]):
                high = middle
            else:
                low = middle
        found.append(names[high - 1])
        if cures(found):
            return found
        names = names[: high - 1]
    return []


def _names(worker: Revived, options: dict[str, Any]) -> list[str]:
    """The passes that loading runs, in order. When loading kills the process, those that it had announced."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        with suppress(CandidateError):  # if loading crashes, the log ends with the pass that it crashed in
            worker.call("log", options, log.name)
        names = [one or other for one, other in _LOGGED.findall(log.read())]
    return [name.replace("mkldnn", "onednn") for name in names]  # some announce their old name, which delete_pass does not know


class PassWorker:
    """Lives in the child: the candidate loaded with other options each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, options: dict[str, Any], inputs: Batch) -> Arrays:
        return runtimes.load(self._folder, options=options).run(inputs)

    def log(self, options: dict[str, Any], path: str) -> None:
        """Load with everything that the runtime says about its passes going into a file."""
        kept = os.dup(1), os.dup(2)
        with Path(path).open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            try:
                runtimes.load(self._folder, options={**options, "log_passes": True})
            finally:
                for stream, copy in zip((1, 2), kept, strict=True):
                    os.dup2(copy, stream)
                    os.close(copy)
