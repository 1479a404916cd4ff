"""Every candidate by its name: in which runtime, in which precision, and what must be installed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any, Literal

from paddleship.errors import ParamsError

Name = Literal[
    "paddle",
    "paddle-onednn",
    "paddle-onednn-bf16",
    "paddle-int8",
    "paddle-pruned",
    "paddle-eager",
    "paddle-gpu",
    "paddle-tensorrt-fp16",
    "onnxruntime",
    "onnxruntime-int8-dynamic",
    "onnxruntime-int8",
    "openvino",
    "openvino-bf16",
    "openvino-int8",
]


@dataclass(frozen=True)
class Kind:
    """What a candidate of one name is.

    `packages` must be installed, and the `extra` of paddleship brings them where the base installation does not. `gpu`
    where it runs on one: such a candidate is tried by default with Paddle's GPU build alone, and was never run by us.
    `useless` says why a candidate is tried only where it is named.
    """

    runtime: str
    precision: str = "float32"
    packages: tuple[str, ...] = ()
    extra: str = ""
    gpu: bool = False
    useless: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


OPSET = 17
PROGRAM = "paddle"  # the exported program as it is: the first candidate, and the source of the others
EAGER = "paddle-eager"  # both the candidate and its runtime: no static graph, the model's own Python code
PRUNED = "float32-2:4"  # float32 that promises decisions, not digits, since half of the weights are zero
OTHER_WEIGHTS = frozenset({"int8", PRUNED})  # precisions whose weights are not the checkpoint's, by intention
_ONNX = {"opset": OPSET}
_ZEROS = "no kernel of Paddle on a CPU is faster for weights that are zero: name it to try it"
KINDS: Mapping[str, Kind] = {
    "paddle": Kind("paddle", options={"onednn": False}),
    "paddle-onednn": Kind("paddle", options={"onednn": True}),
    "paddle-onednn-bf16": Kind("paddle", "bfloat16", options={"onednn": True, "bfloat16": True}),
    "paddle-int8": Kind("paddle", "int8", options={"onednn": False}),
    "paddle-pruned": Kind("paddle", PRUNED, options={"onednn": False}, useless=_ZEROS),
    EAGER: Kind(EAGER),
    "paddle-gpu": Kind("paddle", gpu=True, options={"onednn": False, "gpu": True}),
    "paddle-tensorrt-fp16": Kind("paddle", "float16", gpu=True, options={"onednn": False, "gpu": True, "tensorrt": True}),
    "onnxruntime": Kind("onnxruntime", packages=("onnxruntime",), options=_ONNX),
    "onnxruntime-int8-dynamic": Kind("onnxruntime", "int8", packages=("onnxruntime",), options=_ONNX),
    "onnxruntime-int8": Kind("onnxruntime", "int8", packages=("onnxruntime",), options=_ONNX),
    "openvino": Kind("openvino", packages=("openvino",), extra="openvino", options=_ONNX),
    "openvino-bf16": Kind("openvino", "bfloat16", packages=("openvino",), extra="openvino", options=_ONNX),
    "openvino-int8": Kind("openvino", "int8", packages=("openvino", "nncf"), extra="openvino", options=_ONNX),
}


def chosen(names: Sequence[str] | None) -> list[str]:
    """The candidates that are asked for: those named, or every one that nothing speaks against. Raises ParamsError."""
    if names is None:
        return [name for name in KINDS if not _objection(name)]
    for name in names:
        if lacking := missing(name):
            extra = KINDS[name].extra
            install = f"install the extra {extra!r} (`pip install -e '.[{extra}]'`)" if extra else f"`pip install {lacking}`"
            raise ParamsError(f"optimize.candidates names {name!r} and {lacking} is not installed: {install}, or leave {name} out")
    return list(dict.fromkeys(names))


def left_out(names: Sequence[str]) -> dict[str, str]:
    """Every candidate that is not among `names`, with the reason."""
    return {name: _objection(name) or "optimize.candidates names others" for name in KINDS if name not in names}


def missing(name: str) -> str:
    """The first package that the candidate needs and that is not installed; empty where all are."""
    return next((package for package in KINDS[name].packages if not installed(package)), "")


def installed(package: str) -> bool:
    """Whether a package is there, without importing it."""
    return find_spec(package) is not None


def _objection(name: str) -> str:
    """Why a candidate is not tried by default; empty where it is."""
    if lacking := missing(name):
        return f"{lacking} is not installed"
    if KINDS[name].gpu and not _gpu_build():
        return "this is not Paddle's GPU build"
    return KINDS[name].useless


def _gpu_build() -> bool:
    try:
        distribution("paddlepaddle-gpu")
    except PackageNotFoundError:
        return False
    return True
