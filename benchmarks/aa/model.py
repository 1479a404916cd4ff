"""A candidate that takes about a millisecond in ONNX Runtime, and the same candidate made slower on purpose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import Runtime
from paddleship.shipped.computing.spec import Arrays, TensorSpec

_WIDTH, _LAYERS, _ROWS = 512, 4, 96


def make(folder: Path) -> Path:
    """Write the candidate: seeded matrix products with tanh between them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    scale = _WIDTH**-0.5
    weights = [
        numpy_helper.from_array((random.standard_normal((_WIDTH, _WIDTH)) * scale).astype(np.float32), f"w{layer}")
        for layer in range(_LAYERS)
    ]
    nodes, name = [], "x"
    for layer in range(_LAYERS):
        nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"t{layer}"]))
        name = f"t{layer}"
    shape = ["batch", _WIDTH]
    inputs, outputs = ([helper.make_tensor_value_info(end, TensorProto.FLOAT, shape)] for end in ("x", name))
    folder.mkdir(parents=True)
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, folder / "model.onnx")
    specs = [(TensorSpec(end, "float32", ("batch", _WIDTH), None, None, 0),) for end in ("x", "y")]
    candidate = Candidate(
        "model", "model", "onnxruntime", "float32", 1, specs[0], specs[1], {"kind": "tensors"}, "", "regression", sources={"y": 0}
    )
    candidate.save(folder)
    return folder


def batches() -> dict[int, list[Batch]]:
    """One batch size; a batch takes about a millisecond."""
    random = np.random.default_rng(1)
    return {1: [{"x": random.standard_normal((_ROWS, _WIDTH)).astype(np.float32)} for _ in range(4)]}


class Slowed:
    """Answers like `runtime`, and takes longer by `share`."""

    def __init__(self, runtime: Runtime, share: float) -> None:
        self._runtime, self._share = runtime, share

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        start = time.perf_counter()
        answer = self._runtime.run(inputs)
        end = time.perf_counter() + self._share * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass
        return answer


def load_slowed(folder: Path, share: float) -> Slowed:
    return Slowed(runtimes.load(folder), share)
