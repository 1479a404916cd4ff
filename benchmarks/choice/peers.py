"""The defaults of other tools for the float ONNX file that our candidates are made of, and how each is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.peer_environments import Environment, last_line
from paddleship.conversion import calibration
from paddleship.errors import CandidateError, ParamsError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import Runtime, registry
from paddleship.system.isolate import Factory

_FORMS = Path(__file__).with_name("peer_forms.py")
_CALIBRATED = 75  # batches of four rows: 300 rows, nncf's default
_TIMEOUT_S = 900
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}  # nothing of paddleship, and no data from elsewhere

ONNX_RUNTIME = Environment("onnxruntime", ("onnxruntime", "onnx", "sympy"))
OPENVINO = Environment("openvino", ("openvino", "nncf"))
OLIVE = Environment("olive", ("olive-ai", "onnxruntime", "torch", "requests", "datasets"), left_out=("triton", "cuda-bindings"))


@dataclass(frozen=True)
class Peer:
    """The default of another tool: its environment, its form (benchmarks.choice.peer_forms), and the library that runs it.

    `precision` determines the rules of verify for it; `tools` are the packages whose versions the table names.
    """

    title: str
    environment: Environment
    form: str
    engine: Literal["onnxruntime", "openvino"]
    precision: str
    tools: tuple[str, ...]

    def make(self, source: Path, rows: Path, target: Path) -> str:
        """Write its form of the float file into `target`. Returns the reason if that fails, otherwise an empty string."""
        if reason := self.environment.install():
            return reason
        target.mkdir(parents=True)
        command = [str(self.environment.python), str(_FORMS), self.form, str(source), str(rows), str(target)]
        try:
            done = subprocess.run(
                command,
                cwd=target,
                env={**_ENVIRONMENT, "HOME": str(target)},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it made nothing within {_TIMEOUT_S} s"
        return last_line(done.stderr) if done.returncode else ""

    def load(self, folder: Path, candidate: Path) -> Factory:
        """The function and arguments that load its form in a child process; `candidate` is ours of the same file."""
        return load, (self.engine, self.environment.site, folder, candidate)


PEERS: dict[str, Peer] = {  # OpenVINO computes in bfloat16 by default if the processor can
    "onnxruntime": Peer("ONNX Runtime", ONNX_RUNTIME, "as_it_is", "onnxruntime", "float32", ("onnxruntime",)),
    "onnxruntime-dynamic": Peer("ONNX Runtime, dynamic int8", ONNX_RUNTIME, "onnxruntime_dynamic", "onnxruntime", "int8", ("onnxruntime",)),
    "openvino": Peer("OpenVINO", OPENVINO, "as_it_is", "openvino", "bfloat16", ("openvino",)),
    "nncf": Peer("nncf int8 on OpenVINO", OPENVINO, "nncf_ptq", "openvino", "int8", ("nncf", "openvino")),
    "olive-auto-opt": Peer("Olive auto-opt, int8", OLIVE, "olive_auto_opt", "onnxruntime", "int8", ("olive-ai", "onnxruntime")),
    "olive-optimize": Peer("Olive optimize, int8", OLIVE, "olive_optimize", "onnxruntime", "int8", ("olive-ai", "onnxruntime")),
}


def float_file(candidates: Path) -> Path | None:
    """The folder of a candidate that holds the float ONNX file of the whole program; None if there is none."""
    for folder in sorted(candidates.iterdir()):
        if (folder / "model.onnx").is_file():
            candidate = Candidate.read(folder)
            if candidate.precision == "float32" and registry.get(candidate.runtime).registration.source == "onnx":
                return folder
    return None


def save_rows(prepared: Path, file: Path) -> None:
    """Save training rows for peers that calibrate."""
    batches = calibration.batches(prepared, count=4 * _CALIBRATED)
    arrays: dict[str, Any] = {f"{number}/{name}": array for number, batch in enumerate(batches) for name, array in batch.items()}
    np.savez(file, **arrays)


def load(engine: str, site: Path, folder: Path, ours: Path) -> Runtime:
    """Load a peer's form with the library of its own environment at its defaults, on as many threads as ours. Raises CandidateError."""
    sys.path.insert(0, str(site))
    candidate = Candidate.read(ours)
    return (_onnxruntime if engine == "onnxruntime" else _openvino)(folder, candidate, site)


def _onnxruntime(folder: Path, candidate: Candidate, site: Path) -> Runtime:
    import onnxruntime

    from paddleship.shipped.computing.runtimes.onnx_runtime import OnnxRuntime

    _require_theirs(onnxruntime.__file__, site)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = candidate.threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return OnnxRuntime(session, candidate)


def _openvino(folder: Path, candidate: Candidate, site: Path) -> Runtime:
    from paddleship.shipped.computing.runtimes import openvino as door

    openvino = door.module()
    _require_theirs(openvino.__file__, site)
    file = next(folder / name for name in ("model.xml", "model.onnx") if (folder / name).exists())
    compiled = openvino.Core().compile_model(str(file), "CPU", {"INFERENCE_NUM_THREADS": candidate.threads})
    return door.OpenVino(compiled, candidate)


def _require_theirs(file: str, site: Path) -> None:
    if not Path(file).is_relative_to(site):
        raise CandidateError(f"{file} was loaded in the place of the peer's own, which lies in {site}")


def chosen(words: str) -> Sequence[str]:
    """The peers that PEERS names: none if it is empty, all for 1. Raises ParamsError."""
    names = words.split() if words != "1" else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise ParamsError(f"PEERS names {unknown[0]!r}, which is no peer: choose of {', '.join(PEERS)}, or 1 for all")
    return names
