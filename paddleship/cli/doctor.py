"""`paddleship doctor`: examine the model of the command line or of params.yaml, and print the result."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddleship.cli import options
from paddleship.errors import ParamsError

if TYPE_CHECKING:
    from paddleship.config.sections.model import Model


@click.command()
@click.argument("model", required=False, metavar="[MODULE:FACTORY]")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help="'NAME:DTYPE[DIM,…]' or with '=LOW..HIGH', where HIGH may be a DIM; once per input",
)
@click.option("--dimension", "sizes", multiple=True, metavar="SIZES", help="'NAME=LOW..HIGH' or with '/MULTIPLE': sizes of a dimension")
@click.option("--params", metavar="FILE", help="a file laid over params.yaml that names the model")
@click.option("--kwargs", default="{}", metavar="JSON", help="arguments of the factory")
@click.option("--root", metavar="FOLDER", help="folder added to the import path  [default: . or code.root]")
@click.option("--seconds", type=float, default=120, show_default=True, metavar="N", help="time for the whole examination")
@click.option("--checkpoint", metavar="FOLDER", help="trained weights  [default: fresh random weights]")
@options.JSON
def doctor(
    model: str | None,
    inputs: tuple[str, ...],
    sizes: tuple[str, ...],
    params: str | None,
    kwargs: str,
    root: str | None,
    seconds: float,
    checkpoint: str | None,
    as_json: bool,
) -> int:
    """Check whether a model converts, and say what to change.

    MODULE:FACTORY is the factory of the model, by default model.factory of params.yaml here.

    Exit codes: 0 convertible, 1 convertible with warnings, 2 not convertible or bad input, 3 not exercised, or not judged in time.
    """
    from paddleship.config import preflight
    from paddleship.doctor import examining

    preflight.require_one_build()
    if model is not None and params is not None:
        raise ParamsError(f"MODULE:FACTORY and --params both name a model (got {model!r} and {params!r}): give one")
    declared, folder, seed = _from_arguments(model, inputs, kwargs, sizes, root) if model else _from_params(params, inputs, sizes, root)
    if not Path(folder).is_dir():
        raise ParamsError(f"--root {folder!r} is not a folder: give the one that holds your module")
    if checkpoint is not None and not Path(checkpoint).is_dir():
        raise ParamsError(f"--checkpoint {checkpoint!r} is not a folder: give the one that `train` wrote, or leave it out")
    sys.path.insert(0, str(Path(folder).resolve()))
    weights = Path(checkpoint) if checkpoint else None
    with tempfile.TemporaryDirectory(prefix="paddleship-doctor-") as work, redirect_stdout(sys.stderr):
        examination = examining.examine(declared, work=Path(work), seed=seed, checkpoint=weights, seconds=seconds, say=print)
    print(json.dumps(examination.to_dict(), indent=1) if as_json else examination)
    return examination.exit_code


def _from_arguments(model: str, inputs: tuple[str, ...], kwargs: str, sizes: tuple[str, ...], root: str | None) -> tuple[Model, str, int]:
    """The model of the command line, the folder it is imported from, and the seed."""
    from paddleship.doctor import declaring

    return declaring.parse_model(model, inputs, kwargs, sizes), root or ".", 0


def _from_params(params: str | None, inputs: tuple[str, ...], sizes: tuple[str, ...], root: str | None) -> tuple[Model, str, int]:
    """The model of params.yaml here, with the inputs and sizes of the command line; the folder it is imported from, and the seed."""
    from paddleship.config import params_overlay, rules
    from paddleship.doctor import declaring

    if not Path("params.yaml").exists():
        raise ParamsError("there is no params.yaml here: name the model as MODULE:FACTORY with its --input, or run in the checkout")
    loaded = params_overlay.load(Path.cwd(), params_overlay.path_in(Path.cwd(), params))
    if loaded.model.factory is None:
        raise ParamsError("train.source is an exported file, and the doctor examines Python code: run the stages, or name MODULE:FACTORY")
    declared, absent = declaring.parse_inputs(inputs) if inputs else (loaded.model.inputs, loaded.model.absent)
    dimensions = loaded.model.dimensions | declaring.parse_sizes(sizes)
    if wrong := rules.fault([item.spec() for item in declared], [size.rule(name) for name, size in dimensions.items()]):
        raise ParamsError(f"--input and --dimension do not fit params.yaml: {wrong}")
    changes = {"inputs": declared, "absent": absent, "dimensions": dimensions}
    return loaded.model.model_copy(update=changes), root or loaded.code.root, loaded.seed
