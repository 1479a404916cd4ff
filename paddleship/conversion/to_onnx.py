"""The way to ONNX: paddle2onnx, with what it gets wrong put right."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from paddleship.catalogue import OPSET
from paddleship.conversion import mending
from paddleship.errors import CandidateError


def convert(exported: Path, target: Path) -> None:
    """Write model.onnx of the program in `exported` into `target`. The converter may abort the process, so this runs in a child."""
    import logging

    import onnx
    import paddle2onnx

    logging.disable(logging.INFO)

    program = json.loads((exported / "model.json").read_text(encoding="utf-8"))
    mending.before(program["program"])
    parameters = exported / "model.pdiparams"
    output = target / "model.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        mended = Path(scratch) / "model.json"
        mended.write_text(json.dumps(program), encoding="utf-8")
        paddle2onnx.export(
            str(mended),
            str(parameters) if parameters.exists() else "",
            str(output),
            opset_version=OPSET,
            optimize_tool="None",  # the runtimes fold constants themselves, and polygraphy may install packages
            verbose=False,
        )
    if not output.exists():
        raise CandidateError("paddle2onnx wrote no model")
    made = onnx.load(str(output))
    mending.give_offset_groups(made)
    mending.after(made.graph)
    onnx.save(made, str(output))
    onnx.checker.check_model(str(output))
