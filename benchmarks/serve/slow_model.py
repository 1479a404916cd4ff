"""A candidate whose rows take milliseconds each, and less in a batch: a stack of matrix products with weights of 4 MB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec

NAME, SIZE = "slow", 16
_WIDTH, _LAYERS = 1024, 160


def make(folder: Path) -> None:
    """Write the candidate into a folder."""
    random = np.random.default_rng(0)
    weights = {
        "first": random.normal(size=(SIZE, _WIDTH)) / SIZE**0.5,
        "middle": random.normal(size=(_WIDTH, _WIDTH)) / _WIDTH**0.5,
        "last": random.normal(size=(_WIDTH, 2)) / _WIDTH**0.5,
    }
    nodes, before = [helper.make_node("MatMul", ["x", "first"], ["h0"])], "h0"
    for layer in range(_LAYERS):
        product, before_next = f"p{layer}", f"h{layer + 1}"
        nodes += [helper.make_node("MatMul", [before, "middle"], [product]), helper.make_node("Tanh", [product], [before_next])]
        before = before_next
    nodes.append(helper.make_node("MatMul", [before, "last"], ["y"]))
    shapes = {"x": ["batch", SIZE], "y": ["batch", 2]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, NAME, [values["x"]], [values["y"]], constants)
    folder.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    Candidate(
        name="onnxruntime",
        model=NAME,
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=(TensorSpec("x", "float32", ("batch", SIZE)),),
        outputs=(TensorSpec("y", "float32", ("batch", 2)),),
        sources={"y": 0},
        weights_sha256="0" * 64,
        preprocess={"kind": "tensors"},
        max_batch=16,
        task="regression",
        warm_shapes=({"x": [2, SIZE]},),
    ).save(folder)
