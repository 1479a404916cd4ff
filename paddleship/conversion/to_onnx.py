"""Convert a program to ONNX with paddle2onnx, and fix its known conversion errors."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

from paddleship.conversion import pir
from paddleship.conversion.onnx_fixups import operator_fixes
from paddleship.errors import CandidateError

OPSET = 17
_IN_ONE_PIECE = 8  # characters of a name that a compiled program may store as a number instead of text
_CONVERTER = re.compile(rb"paddle2onnx\d\d([a-z]\w*?)(?:Pir)?Generator")  # the class that paddle2onnx registers for an operator
_RENAMED = frozenset({"divide", "maximum", "minimum", "arange", "nonzero", "reverse", "flatten", "numel", "data", "fetch", "if", "while"})
"""Operators with short names that paddle2onnx converts under another name."""


def convert(exported: Path, target: Path) -> None:
    """Write model.onnx of the program in `exported` into `target`. Run it in a child process: the converter may abort the process."""
    import logging

    import onnx
    import paddle2onnx

    logging.disable(logging.INFO)

    program = json.loads((exported / "model.json").read_text(encoding="utf-8"))
    operator_fixes.before(program["program"])
    if unheard := unknown(program["program"]):
        print(f"[ERROR]unsupported by paddle2onnx: [OP: {', '.join(unheard)}]", file=sys.stderr, flush=True)  # its abort names none
    parameters = exported / "model.pdiparams"
    output = target / "model.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        fixed = Path(scratch) / "model.json"
        fixed.write_text(json.dumps(program), encoding="utf-8")
        paddle2onnx.export(
            str(fixed),
            str(parameters) if parameters.exists() else "",
            str(output),
            opset_version=OPSET,
            optimize_tool="None",  # the runtimes fold constants, and polygraphy may install packages
            verbose=False,
        )
    if not output.exists():
        raise CandidateError("paddle2onnx wrote no model")
    made = onnx.load(str(output))
    operator_fixes.give_offset_groups(made)
    operator_fixes.after(made.graph)
    onnx.save(made, str(output))
    onnx.checker.check_model(str(output))


def unknown(program: Mapping[str, Any]) -> list[str]:
    """Paddle operators that paddle2onnx has no converter for, by the names in its library; parts of other names are never reported."""
    spec = util.find_spec("paddle2onnx.paddle2onnx_cpp2py_export")
    if spec is None or spec.origin is None:
        return []
    library = Path(spec.origin).read_bytes()
    converters = " ".join(sorted({name.decode().replace("_", "") for name in _CONVERTER.findall(library)}))
    operators = {operator["#"] for block in pir.blocks(program) for operator in block["ops"]}
    names = {name.removeprefix("1.").rstrip("_") for name in operators if name.startswith("1.")}
    return sorted(name for name in names if not _in_library(name, library, converters))


def _in_library(name: str, library: bytes, converters: str) -> bool:
    """Whether the library has a converter of that name, or holds the name of an operator that it converts under another one."""
    if not converters or name in _RENAMED or name.replace("_", "") in converters:
        return True
    return len(name) >= _IN_ONE_PIECE and name.encode() in library
