"""The comparator of NVIDIA's Polygraphy with default settings, in an environment of its own under .peers/."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peer_environments import Environment
from paddleship.shipped.computing.spec import Arrays

ENVIRONMENT = Environment("polygraphy", ("polygraphy", "numpy<2.4"))
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
    """Create the environment if it is missing. Returns why it is unavailable, or an empty string."""
    return ENVIRONMENT.install()


def polygraphy_refuses(pairs: Sequence[tuple[Arrays, Arrays]]) -> list[bool]:
    """For each pair of answers of eager and an export, whether Polygraphy's comparator refuses it with default settings."""
    flat = {
        f"{number}/{side}/{name}": array
        for number, pair in enumerate(pairs)
        for side, answer in zip(("eager", "answer"), pair, strict=True)
        for name, array in answer.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.npz"
        np.savez(path, **flat)
        done = subprocess.run([ENVIRONMENT.python, "-c", _ASK, path], capture_output=True, encoding="utf-8", errors="replace", check=True)
    return [bool(value) for value in json.loads(done.stdout.strip().splitlines()[-1])]
