"""Models with a fault in their code, through all stages from `prepare` to `verify`, and honest ones next to them."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults import stages
from benchmarks.faults.cost import copy
from benchmarks.faults.fault import Found

_MODEL = """
import locale, logging, os, socket, threading, time, uuid
from datetime import date, datetime
from pathlib import Path

import paddle
from paddle import nn
from paddle.nn import functional as F

FACTOR = Path(__file__).parent / "factor.txt"


class Heads(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
{init}

    def forward(self, x):
        y = self.linear(x)
{forward}


def build():
    return Heads()
"""
_READER = """
import json

def read(raw):
    with raw.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
"""


@dataclass(frozen=True)
class Coded:
    """A regression model of two numbers: lines of its `__init__`, and of its `forward` with `x` and `y = self.linear(x)`.

    `verify` must report a finding of the kind `finding` for each text of `expects`, with the line that ends with the text as a comment if
    there is one. If `refused`, it must also fail. Without `finding` the model is honest, and `verify` must report nothing serious.
    """

    name: str
    forward: str
    init: str = ""
    finding: str = ""
    expects: tuple[str, ...] = ()
    refused: bool = True

    @property
    def source(self) -> str:
        return _MODEL.format(init=_indented(self.init), forward=_indented(self.forward))


def measure(models: Sequence[Coded], work: Path) -> list[Found]:
    """The result of each model, each in a copy of one checkout."""
    checkout = _checkout(work / "coded")
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(partial(_ask_aloud, checkout), models, [work / f"coded-{place}" for place in range(len(models))]))


def _ask_aloud(checkout: Path, model: Coded, copied: Path) -> Found:
    found = _ask(checkout, model, copied)
    print(found, flush=True)
    return found


def _ask(checkout: Path, model: Coded, copied: Path) -> Found:
    subprocess.run(["cp", "-a", str(checkout), str(copied)], check=True)
    (copied / "heads/model.py").write_text(model.source, encoding="utf-8")
    for stage in ("prepare", "train", "export", "optimize"):
        if (done := stages.run(copied, stage)).returncode:
            return Found(model.name, True, False, f"{stage}: {done.stderr.strip()[-300:]}", honest=not model.finding)
    code = stages.run(copied, "verify").returncode
    report = json.loads((copied / "reports/verify.json").read_text(encoding="utf-8"))
    serious = [finding for finding in report["findings"] if finding["severity"] != "note"]
    noticed = any(finding["kind"] == model.finding or not model.finding for finding in serious)
    text = "; ".join(f"{one['severity']}: {one['kind']}: {one['message']} at {one['where']}" for one in serious)
    return Found(model.name, bool(code) or noticed, _right(model, serious, code), text, honest=not model.finding)


def _right(model: Coded, findings: Sequence[dict[str, Any]], code: int) -> bool:
    """Whether each expected text is in a finding with its line, no finding of the kind names another line, and the exit code fits."""
    lines = [(f"model.py:{number}", line.partition("  # ")[2]) for number, line in enumerate(model.source.splitlines(), 1)]
    marked = {text: tuple(where for where, mark in lines if mark == text) or ("",) for text in model.expects}
    mine = [(finding["message"], str(finding["where"] or "")) for finding in findings if finding["kind"] == model.finding]
    known = all(any(text in message and where.endswith(marked[text]) for message, where in mine) for text in model.expects)
    elsewhere = any(not where.endswith(sum(marked.values(), ())) for _, where in mine)
    return known and not elsewhere and code in ((3,) if model.refused else (0, 3))


def _checkout(checkout: Path) -> Path:
    """A checkout whose params name a model in its folder `heads`."""
    copy(checkout)
    folder = checkout / "heads"
    folder.mkdir()
    (folder / "factor.txt").write_text("1.5", encoding="utf-8")
    (folder / "data.py").write_text(_READER, encoding="utf-8")
    (folder / "model.py").write_text(Coded("", "return y").source, encoding="utf-8")
    draw = random.Random(5)  # noqa: S311 no secret
    with (checkout / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for _ in range(300):
            one, two = (round(draw.uniform(-3, 3), 4) for _ in range(2))
            rows.write(json.dumps({"x": [one, two], "y": [one - two, one + two]}) + "\n")
    values = yaml.safe_load((checkout / "params.yaml").read_text(encoding="utf-8"))
    values |= {"name": "heads", "code": {"root": ".", "watch": "heads"}, "preprocess": {"kind": "tensors"}}
    values["data"] |= {"fetch": {}, "raw": "rows.jsonl", "reader": "heads.data:read", "inputs": ["x"], "label": "y"}
    values["data"] |= {"task": "regression", "classes": []}
    values["model"] = {"factory": "heads.model:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]}
    values["train"] |= {"epochs": 2, "batch_size": 16, "learning_rate": 0.05, "min_score": None}
    values["optimize"] |= {"candidates": ["paddle"], "tune_seconds": 0}
    values["verify"] |= {"max_batch": 8}
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return checkout


def _indented(lines: str) -> str:
    return "\n".join(" " * 8 + line for line in lines.splitlines())
