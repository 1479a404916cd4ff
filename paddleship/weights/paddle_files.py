"""Read the weights of a Paddle program: names are in model.json, values in model.pdiparams."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddleship.conversion import pir
from paddleship.errors import CandidateError
from paddleship.numerics import combined_tensors
from paddleship.numerics.differences import Array
from paddleship.weights.candidate_tensors import Tensor, Tensors, dequantised

_COPIES = re.compile(r"(_deepcopy_\d+)+$")  # Paddle's suffix for a parameter of a copied layer in quantisation
_QUANTISED = 127
_PERSISTABLE = 0  # index among a parameter's flags; the state of a dropout is not in the file


def read(folder: Path) -> Tensors:
    """The tensors of the program in `folder`. Raises CandidateError if files are incomplete or do not fit each other."""
    try:
        program = json.loads((folder / "model.json").read_text(encoding="utf-8"))["program"]
        operators = [operator for block in pir.blocks(program) for operator in block["ops"]]
        shapes = {_name(operator): _shape(operator) for operator in operators if operator["#"] == "p" and operator["OA"][_PERSISTABLE]}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CandidateError(f"{folder / 'model.json'} cannot be read ({type(error).__name__}: {error})") from None
    path = folder / "model.pdiparams"
    if not shapes and not path.exists():
        return {}
    try:
        arrays = dict(combined_tensors.arrays(path.read_bytes(), shapes))
    except ValueError as odd:
        raise CandidateError(f"{path} {odd}") from None
    except OSError as error:
        raise CandidateError(f"{path} cannot be read ({error.strerror})") from None
    return {_COPIES.sub("", name): tensor for name, tensor in _dequantise(operators, arrays).items()}


def _name(parameter: Mapping[str, Any]) -> str:
    return str(parameter["A"][3])


def _shape(parameter: Mapping[str, Any]) -> list[int]:
    return list(parameter["O"]["TT"]["D"][1])


def _dequantise(operators: list[dict[str, Any]], arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """The tensors; those that the program dequantises are dequantised."""
    names = {operator["O"]["%"]: _name(operator) for operator in operators if operator["#"] == "p"}
    tensors = {name: Tensor(array) for name, array in arrays.items()}
    for operator in operators:
        if operator["#"] != "1.dequantize_linear":
            continue
        codes, scale, zero = (names.get(value["%"]) for value in operator["I"][:3])
        if codes and scale and zero:
            axis = int(pir.attribute(operator, "quant_axis"))
            tensors[codes] = dequantised(arrays[codes], arrays[scale] / _QUANTISED, arrays[zero], axis=axis)
    return tensors
