"""Test whether a saved form runs in a process that cannot import the model's Python code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.graph_modes.network_setup import Array
from paddleship.numerics import differences

_WITHOUT_CODE = """
import sys

sys.path += {site!r}

import numpy as np

class BlockedImports:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (the model's code is not here)", name=name)

sys.meta_path.insert(0, BlockedImports())
folder = sys.argv[1]

{loader}

answer = {name}(folder)(np.load(folder + "/asked.npy"))
np.save(folder + "/answered.npy", np.asarray(answer[0] if isinstance(answer, (list, tuple)) else answer))
"""
_ABSENT = ("paddleship", "examples", "tasks", "flows")
_TOLERANCE = 1e-3  # of the answer's size: the same program, on the same kernels or those of a predictor


@dataclass(frozen=True)
class SavedForm:
    """A saved form and the lines that load it: `loader` is the source of a function called `name`."""

    folder: Path
    loader: str
    name: str
    asked: Array
    expected: Array


def loads_without_code(form: SavedForm, *, site: str | None, timeout_s: float, device: str = "cpu") -> tuple[bool, str]:
    """Load the form in a process without the model's code, on the device that gave the expected answer.

    Returns whether it answered as before, and the reason if not.
    """
    np.save(form.folder / "asked.npy", form.asked)
    packages = [str(Path(np.__file__).parents[1]), *([site] if site else [])]  # the interpreter ignores PYTHONPATH
    script = _WITHOUT_CODE.format(absent=_ABSENT, site=packages, loader=form.loader, name=form.name)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory(prefix="paddleship-without-code-") as elsewhere:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", script, str(form.folder.resolve())],
                cwd=elsewhere,
                env=environment,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"it did not load within {timeout_s:g} s"
    if done.returncode:
        return False, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    if differences.relative(np.load(form.folder / "answered.npy"), form.expected) > _TOLERANCE:
        return False, "it loads, and its answer differs from the model's"
    return True, ""
