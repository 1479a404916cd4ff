"""`make bench`: run ten models through the stages, and check whether the choice was right.

Prints a table and, as the last line, its figures as JSON; exits 3 if a goal is missed. `SHORT=1` is the form for CI: one small model.
Names of models select some: `python -m benchmarks.choice textcnn lstm`. `PEERS=1` compares each choice with the defaults of other
tools for the same float ONNX file; names of peers select some.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choice import peer_table, peers
from benchmarks.choice.contest import Result, hold
from benchmarks.choice.models import MODELS
from paddleship.config.catalogue import kinds
from paddleship.errors import ParamsError
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.system import host

_SHORT = "recommender"
_GAIN, _REGRET, _RIGHT = 4.0, 0.05, 0.9
_SHORTER = {"to_static": "static", "onnxruntime": "ort", "openvino": "ov", "paddle-": "p-", "dynamic": "dyn"}
_MARKS = {"optimize": "–", "verify": "✗", "benchmark": "†"}  # by the stage that a participant did not pass


def main() -> None:
    silence_paddle()
    short = bool(os.environ.get("SHORT"))
    names = sys.argv[1:] or ([_SHORT] if short else list(MODELS))
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        sys.exit(f"error: no model is named {unknown[0]!r}: choose of {', '.join(MODELS)}")
    try:
        rivals = peers.chosen(os.environ.get("PEERS", ""))
    except ParamsError as error:
        sys.exit(f"error: {error}")
    start = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory() as work, redirect_stdout(sys.stderr):  # progress lines of the benchmarks
        for name in names:
            results.append(hold(name, Path(work) / name, short=short, peers=rivals))
            print(f"{len(results)}/{len(names)} {line(results[-1])}", file=sys.stderr, flush=True)
    print(table(results))
    compared = {result.name: result.peers for result in results if result.peers}
    if rivals:
        print(peer_table.table(compared))
    figures = summary(results) | peer_table.figures(compared) | {"seconds": round(time.monotonic() - start, 1), "host": host.fingerprint()}
    print(json.dumps(figures))
    sys.exit(0 if met(figures) else 3)


def table(results: Sequence[Result]) -> str:
    """p50 in ms by participant, the choice in brackets; then each choice with its gain and regret; then the reasons for missing values."""
    participants = [name for name in ("eager", "to_static", *kinds()) if any(name in result.rows for result in results)]
    widths = {name: max(len(_title(name)), 8) + 2 for name in participants}
    head = f"{'p50 ms, one thread':18}" + "".join(f"{_title(name):>{width}}" for name, width in widths.items())
    body = [f"{result.name:18}" + "".join(f"{_cell(result, name):>{width}}" for name, width in widths.items()) for result in results]
    marks = "[chosen]  – could not be made  ✗ refused by verify  † failed in the benchmark"
    missing = [(result.name, name, row["reason"]) for result in results for name, row in result.rows.items() if row.get("reason")]
    reasons = [f"{model}, {name}: {reason[:200]}" for model, name, reason in missing]
    return "\n".join([head, *body, marks, "", *map(line, results), "", *reasons])


def line(result: Result) -> str:
    """The choice as text."""
    if result.failed or result.regret is None:
        return f"{result.name}: FAILED: {result.failed}"
    row, regret = result.rows[result.chosen], result.regret
    gain = f"{row['speedup']:.1f}× eager ({row['speedup_low']:.1f} to {row['speedup_high']:.1f})"
    span = f"{regret.interval.value:.3f} ({regret.interval.low:.3f} to {regret.interval.high:.3f})"
    rivals = f"{span} × the latency of {regret.best if regret.value else regret.rivals[0]}" if regret.rivals else "no rival"
    return (
        f"{result.name}: {result.chosen}, {gain}; with {regret.more:.0f} × the samples {rivals}, regret {regret.value:.1%}; "
        f"validation score {result.score:.2f}; {sum(result.seconds.values()):.0f} s"
    )


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The geometric mean of the gains over eager, and the number of right choices."""
    whole = [(result, result.regret.value) for result in results if result.regret is not None]
    gains = [result.rows["eager"]["p50_ms"] / result.rows[result.chosen]["p50_ms"] for result, _ in whole]
    return {
        "models": len(results),
        "failed": len(results) - len(whole),
        "failed_goal": 0,
        "gain_geometric_mean": round(float(np.exp(np.mean(np.log(gains)))), 2) if gains else None,
        "gain_geometric_mean_goal": _GAIN,
        "choices_within_regret": sum(regret <= _REGRET for _, regret in whole),
        "choices_within_regret_goal": int(np.ceil(_RIGHT * len(results))),
        "regret_limit": _REGRET,
        **{f"{result.name}_gain": round(gain, 2) for (result, _), gain in zip(whole, gains, strict=True)},
        **{f"{result.name}_regret": round(regret, 4) for result, regret in whole},
        **{f"{result.name}_chosen": result.chosen for result, _ in whole},
    }


def met(figures: dict[str, Any]) -> bool:
    enough = figures["gain_geometric_mean"] is not None and figures["gain_geometric_mean"] >= _GAIN
    return bool(enough and figures["failed"] == 0 and figures["choices_within_regret"] >= figures["choices_within_regret_goal"])


def _title(name: str) -> str:
    for part, shorter in _SHORTER.items():
        name = name.replace(part, shorter)
    return name


def _cell(result: Result, name: str) -> str:
    row = result.rows.get(name)
    if row is None:
        return ""
    if row.get("p50_ms") is None:
        return _MARKS[row["stage"]]
    return f"[{row['p50_ms']:.3g}]" if name == result.chosen else f"{row['p50_ms']:.3g}"


if __name__ == "__main__":
    main()
