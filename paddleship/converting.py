"""Candidates: the exported program in each runtime that was asked for, or the reason why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from paddleship import isolate, runtimes
from paddleship.candidate import Candidate
from paddleship.errors import CandidateError
from paddleship.files import new_folder
from paddleship.preprocess import Batch

OPSET = 17


@dataclass(frozen=True)
class Outcome:
    """One candidate that was tried: made, or the reason why not."""

    name: str
    runtime: str
    precision: str
    bytes: int = 0
    reason: str = ""

    @property
    def made(self) -> bool:
        return not self.reason


def convert(name: str, exported: Path, target: Path, *, threads: int, probe: Batch, timeout_s: float) -> Outcome:
    """Make the candidate `name` in `target` and let it answer `probe` once, both in processes of their own."""
    base = Candidate.load(exported)
    made = plan(name, base, threads=threads)
    try:
        with new_folder(target) as beside:
            for part in [program.folder for program in base.programs] or ["."]:
                (beside / part).mkdir(exist_ok=True)
                isolate.run(f"the conversion to {name}", _CANDIDATES[name][1], exported / part, beside / part, timeout_s=timeout_s)
            made = made.save(beside)
            with isolate.Isolated(name, runtimes.load, beside, timeout_s=timeout_s, environment=isolate.threads(threads)) as runtime:
                runtime.call("run", probe)
    except CandidateError as error:
        return Outcome(name, made.runtime, made.precision, reason=str(error))
    return Outcome(name, made.runtime, made.precision, bytes=sum((target / file).stat().st_size for file in made.files))


def plan(name: str, base: Candidate, *, threads: int) -> Candidate:
    """What the candidate `name` of an exported program says of itself, before it is made."""
    return replace(_CANDIDATES[name][0](base), name=name, threads=threads)


def _copy_program(exported: Path, target: Path) -> None:
    for path in exported.glob("model.*"):
        shutil.copy(path, target)


def to_onnx(exported: Path, target: Path) -> None:
    """Write model.onnx. The converter may abort the process, so this runs in a child."""
    import logging

    import onnx
    import paddle2onnx

    logging.disable(logging.INFO)

    parameters = exported / "model.pdiparams"
    output = target / "model.onnx"
    paddle2onnx.export(
        str(exported / "model.json"),
        str(parameters) if parameters.exists() else "",
        str(output),
        opset_version=OPSET,
        optimize_tool="None",  # ONNX Runtime folds constants itself, and polygraphy would run pip
        verbose=False,
    )
    if not output.exists():
        raise CandidateError("paddle2onnx wrote no model")
    onnx.checker.check_model(str(output))


def _paddle(base: Candidate) -> Candidate:
    return base


def _paddle_onednn(base: Candidate) -> Candidate:
    return replace(base, options={"onednn": True})


def _paddle_onednn_bf16(base: Candidate) -> Candidate:
    return replace(base, precision="bfloat16", options={"onednn": True, "bfloat16": True})


def _onnxruntime(base: Candidate) -> Candidate:
    return replace(base, runtime="onnxruntime", options={"opset": OPSET})


_CANDIDATES: dict[str, tuple[Callable[[Candidate], Candidate], Callable[[Path, Path], None]]] = {
    "paddle": (_paddle, _copy_program),
    "paddle-onednn": (_paddle_onednn, _copy_program),
    "paddle-onednn-bf16": (_paddle_onednn_bf16, _copy_program),
    "onnxruntime": (_onnxruntime, to_onnx),
}
