"""Read the weights of OpenVINO IR: constants keep the parameter's name, except those that the quantiser wrote again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.runtimes import openvino as door
from paddleship.weights.candidate_tensors import Tensor, Tensors


def read(folder: Path) -> Tensors:
    """The constants of model.xml and model.bin, dequantised. Raises CandidateError."""
    ov = door.module()
    path = folder / "model.xml"
    try:
        operators = ov.Core().read_model(str(path)).get_ordered_ops()
        constants = [operator for operator in operators if operator.get_type_name() == "Constant"]
        return {operator.get_friendly_name(): _tensor(operator) for operator in constants}
    except RuntimeError as error:
        raise CandidateError(f"{path} cannot be read ({' '.join(str(error).split())[-200:]})") from None


def _tensor(constant: Any) -> Tensor:
    """A constant, dequantised if it is converted, shifted and multiplied by other constants."""
    values, step, operator = np.array(constant.data), None, _only_user(constant)
    if values.dtype.kind not in "iu" or operator is None or operator.get_type_name() != "Convert":
        return Tensor(values)
    operator = _only_user(operator)
    while operator is not None and operator.get_type_name() in ("Subtract", "Multiply"):
        other = _made(operator.input_value(1))
        if other is None:
            break
        values = values - other if operator.get_type_name() == "Subtract" else values * other
        step = np.abs(other) if operator.get_type_name() == "Multiply" else step
        operator = _only_user(operator)
    return Tensor(values, step)


def _made(value: Any) -> Any:
    """The values of a constant, also after a conversion; None for a computed value."""
    operator = value.get_node()
    if operator.get_type_name() == "Convert":
        operator = operator.input_value(0).get_node()
    return np.array(operator.data).astype(np.float64) if operator.get_type_name() == "Constant" else None


def _only_user(operator: Any) -> Any:
    users = list(operator.output(0).get_target_inputs())
    return users[0].get_node() if len(users) == 1 else None
