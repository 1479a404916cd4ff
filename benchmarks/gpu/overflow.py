"""A small program whose squares overflow in float16, as a candidate without a model behind it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from paddleship.conversion import half_precision
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import TensorSpec

_SIZE = 64


def program(folder: Path, runtime: str = "onnxruntime-cuda") -> Path:
    """A candidate of this runtime that multiplies the squares of 1,000 x, divided again, by a matrix, in a new `folder`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    weights = {"large": 1000.0, "small": 1e-6, "w": np.random.default_rng(0).normal(size=(_SIZE, _SIZE)) / 8}
    steps = [("Mul", ("x", "large"), "a"), ("Mul", ("a", "a"), "b"), ("Mul", ("b", "small"), "c"), ("MatMul", ("c", "w"), "y")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", _SIZE]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node(kind, given, [made], name=f"{kind}_{made}") for kind, given, made in steps],
        "squares",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "model.onnx"))
    _describe(folder, runtime)
    return folder


def finite_shares(folder: Path, runtime: str) -> tuple[float, float, str]:
    """The shares of finite numbers in the answers of the program in float16: as a whole, and with what overflows in float32, and which."""
    import onnx
    from onnxruntime.transformers import float16

    batch = {"x": np.random.default_rng(1).normal(size=(8, _SIZE)).astype(np.float32)}
    source = program(folder / "source", runtime)
    whole = folder / "whole"
    shutil.copytree(source, whole, dirs_exist_ok=True)
    onnx.save(float16.convert_float_to_float16(onnx.load(str(source / "model.onnx")), keep_io_types=True), str(whole / "model.onnx"))
    kept = folder / "kept"
    shutil.copytree(source, kept, dirs_exist_ok=True)
    note = half_precision.convert(source, kept, [batch])["float32_operators"]
    shares = []
    for target in (whole, kept):
        _describe(target, runtime)
        shares.append(float(np.isfinite(runtimes.load(target).run(batch)["y"]).mean()))
    return shares[0], shares[1], f"in float32: {note}"


def _describe(folder: Path, runtime: str) -> None:
    specs = [TensorSpec(name, "float32", ("batch", _SIZE)) for name in ("x", "y")]
    name = next(iter(registry.get(runtime).registration.candidates))
    Candidate(
        name, "squares", runtime, "float32", 1, (specs[0],), (specs[1],), {"kind": "tensors"}, "", sources={"y": 0}, max_batch=8
    ).save(folder)
