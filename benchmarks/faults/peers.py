"""The check of NVIDIA's Polygraphy at its defaults, in an environment of its own under .peers/, so that its pins never touch ours."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paddleship.shipped.common.spec import Arrays

HOME = Path(__file__).parents[2] / ".peers" / "polygraphy"
_ASK = """
import json, sys
import numpy as np
from polygraphy.comparator import CompareFunc, IterationResult
from polygraphy.logger import G_LOGGER
G_LOGGER.module_severity = G_LOGGER.CRITICAL
stored, pairs = np.load(sys.argv[1], allow_pickle=False), {}
for key in stored.files:
    number, side, name = key.split("/", 2)
    pairs.setdefault(int(number), {"eager": {}, "answer": {}})[side][name] = stored[key]
compare, refused = CompareFunc.simple(), []
for number in sorted(pairs):
    results = [IterationResult(outputs=pairs[number][side], runner_name=side) for side in ("answer", "eager")]
    found = compare(*results)
    refused.append(not found or not all(bool(result) for result in found.values()))
print(json.dumps(refused))
"""


def install() -> str:
    """Make the environment where it is not there; the reason why it cannot be had, or nothing."""
    if (HOME / "ready").exists():
        return ""
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(HOME)],
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(HOME / "bin/python"), "polygraphy", "numpy<2.4"],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
    (HOME / "ready").touch()
    return ""


def polygraphy_refuses(pairs: Sequence[tuple[Arrays, Arrays]]) -> list[bool]:
    """For each pair of eager's and an export's answers, whether Polygraphy's comparator at its defaults refuses it."""
    flat = {
        f"{number}/{side}/{name}": array
        for number, pair in enumerate(pairs)
        for side, answer in zip(("eager", "answer"), pair, strict=True)
        for name, array in answer.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.npz"
        np.savez(path, **flat)
        done = subprocess.run([HOME / "bin/python", "-c", _ASK, path], capture_output=True, text=True, check=True)
    return [bool(value) for value in json.loads(done.stdout.strip().splitlines()[-1])]
