"""Make a peer's default form of a float ONNX file. Runs in the peer's own Python: python peer_forms.py FORM SOURCE ROWS TARGET.

SOURCE is the float model.onnx, ROWS an .npz of calibration batches (`0/name`, …), TARGET the folder for the result. Imports nothing of
paddleship.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_ERROR = re.compile(r"\w*(Error|Exception): ")  # the last line of a traceback
Rows = list[dict[str, np.ndarray[Any, Any]]]


def as_it_is(source: Path, _rows: Rows, target: Path) -> None:
    """Copy the file unchanged."""
    shutil.copy(source, target / "model.onnx")


def onnxruntime_dynamic(source: Path, _rows: Rows, target: Path) -> None:
    """ONNX Runtime's preprocessing and dynamic quantisation, both at their defaults."""
    from onnxruntime import quantization
    from onnxruntime.quantization import shape_inference

    prepared = target / "prepared.onnx"
    try:
        shape_inference.quant_pre_process(source, prepared)
    except Exception:  # by default it infers shapes symbolically; its error message says to skip that
        shape_inference.quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantization.quantize_dynamic(prepared, target / "model.onnx")
    prepared.unlink()


def nncf_ptq(source: Path, rows: Rows, target: Path) -> None:
    """nncf's post-training quantisation with default settings."""
    import nncf
    import openvino

    model = openvino.Core().read_model(source)
    names = [next(name for name in rows[0] if name in port.names) for port in model.inputs]
    made = nncf.quantize(model, nncf.Dataset([[row[name] for name in names] for row in rows]))
    openvino.save_model(made, target / "model.xml")


def olive_auto_opt(source: Path, _rows: Rows, target: Path) -> None:
    """Olive's `auto-opt` to int8 for the CPU."""
    _olive("auto-opt", source, target)


def olive_optimize(source: Path, _rows: Rows, target: Path) -> None:
    """Olive's `optimize` to int8 for the CPU."""
    _olive("optimize", source, target)


def _olive(command: str, source: Path, target: Path) -> None:
    program, out = Path(sys.executable).with_name("olive"), target / "olive"
    given = ["--model_name_or_path", source, "--output_path", out, "--device", "cpu", "--provider", "CPUExecutionProvider"]
    done = subprocess.run(
        [program, command, *given, "--precision", "int8", "--disable_telemetry"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    made = sorted(out.rglob("*.onnx"))
    if done.returncode or not made:
        lines = f"{done.stdout}\n{done.stderr}".splitlines()
        sys.exit(next((line for line in reversed(lines) if _ERROR.match(line)), "it wrote no model"))
    for path in made[0].parent.iterdir():
        shutil.move(path, target / ("model.onnx" if path == made[0] else path.name))


FORMS: dict[str, Callable[[Path, Rows, Path], None]] = {
    form.__name__: form for form in (as_it_is, onnxruntime_dynamic, nncf_ptq, olive_auto_opt, olive_optimize)
}


def main() -> None:
    form, source, stored, target = FORMS[sys.argv[1]], *map(Path, sys.argv[2:5])
    rows: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
    with np.load(stored) as arrays:
        for key in arrays.files:
            number, _, name = key.partition("/")
            rows.setdefault(int(number), {})[name] = arrays[key]
    form(source, [rows[number] for number in sorted(rows)], target)


if __name__ == "__main__":
    main()
