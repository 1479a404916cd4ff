"""`paddleship doctor`: examine the model of the command line or of params.yaml, and print the result."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from paddleship.config import params_overlay, preflight, rules
from paddleship.config.sections.model import Model
from paddleship.doctor import declaring, examining
from paddleship.errors import ParamsError


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 convertible, 1 convertible with warnings, 2 not convertible or bad input, 3 not exercised, or not judged in time."""
    preflight.require_one_paddle()
    model, root, seed = _declared(arguments)
    if not Path(root).is_dir():
        raise ParamsError(f"--root {root!r} is not a folder: give the one that holds your module")
    checkpoint = Path(arguments.checkpoint) if arguments.checkpoint else None
    if checkpoint is not None and not checkpoint.is_dir():
        raise ParamsError(f"--checkpoint {arguments.checkpoint!r} is not a folder: give the one that `train` wrote, or leave it out")
    sys.path.insert(0, str(Path(root).resolve()))
    with tempfile.TemporaryDirectory(prefix="paddleship-doctor-") as work, redirect_stdout(sys.stderr):
        examination = examining.examine(model, work=Path(work), seed=seed, checkpoint=checkpoint, seconds=arguments.seconds, say=print)
    print(json.dumps(examination.to_dict(), indent=1) if arguments.json else examination)
    return examination.exit_code


def _declared(arguments: argparse.Namespace) -> tuple[Model, str, int]:
    """The model, the folder it is imported from, and the seed."""
    if arguments.model is not None and arguments.params is not None:
        raise ParamsError(f"MODULE:FACTORY and --params both name a model (got {arguments.model!r} and {arguments.params!r}): give one")
    if arguments.model is not None:
        return declaring.parse_model(arguments.model, arguments.input, arguments.kwargs, arguments.dimension), arguments.root or ".", 0
    if not Path("params.yaml").exists():
        raise ParamsError("there is no params.yaml here: name the model as MODULE:FACTORY with its --input, or run in the checkout")
    found = params_overlay.load(Path.cwd(), params_overlay.path_in(Path.cwd(), arguments.params))
    inputs, absent = declaring.parse_inputs(arguments.input) if arguments.input else (found.model.inputs, found.model.absent)
    sizes = found.model.dimensions | declaring.parse_sizes(arguments.dimension)
    if wrong := rules.fault([item.spec() for item in inputs], [size.rule(name) for name, size in sizes.items()]):
        raise ParamsError(f"--input and --dimension do not fit params.yaml: {wrong}")
    changes = {"inputs": inputs, "absent": absent, "dimensions": sizes}
    return found.model.model_copy(update=changes), arguments.root or found.code.root, found.seed
