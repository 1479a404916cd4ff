"""Exported programs: the model's class is gone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import paddle
from onnx import helper, numpy_helper
from paddle import nn
from paddle.static import InputSpec

from benchmarks.zoo.files import nets
from benchmarks.zoo.files.checkpoints import trained
from benchmarks.zoo.files.specimen import NUMBERS, PICTURE, TEXT, FileSpecimen

JSON, OLD, ONNX = {"exported": "inference.json"}, {"exported": "inference.pdmodel"}, {"exported": "model.onnx"}
_PICTURES = InputSpec([None, 3, 8, 8], "float32", "x")


def _saved(model: nn.Layer, folder: Path, *inputs: InputSpec) -> None:
    model.eval()
    paddle.jit.save(model, str(folder / "inference"), input_spec=list(inputs))


def exported(folder: Path) -> None:
    _saved(trained(), folder, _PICTURES)


def probabilities(folder: Path) -> None:
    """With a softmax, as the collections export."""
    _saved(nn.Sequential(trained(), nn.Softmax()), folder, _PICTURES)


def static(folder: Path) -> None:
    """As a program of static mode is saved."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 3, 8, 8], "float32")
        hidden = nn.functional.relu(nn.Conv2D(3, 4, 3)(x)).mean([2, 3])
        answer = nn.functional.softmax(nn.Linear(4, nets.CLASSES)(hidden))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        paddle.static.save_inference_model(str(folder / "inference"), [x], [answer], executor, program=main)


def two_inputs(folder: Path) -> None:
    paddle.seed(1)
    _saved(nets.TwoInputs(), folder, _PICTURES, InputSpec([None, 4], "float32", "extra"))


def of_text(folder: Path) -> None:
    paddle.seed(1)
    _saved(nets.Reader(), folder, InputSpec([None, None], "int64", "ids"))


def one_batch(folder: Path) -> None:
    _saved(trained(), folder, InputSpec([1, 3, 8, 8], "float32", "x"))


def without_parameters(folder: Path) -> None:
    exported(folder)
    (folder / "inference.pdiparams").unlink()


def others_parameters(folder: Path) -> None:
    """The program of one export and the parameters of another."""
    exported(folder)
    theirs = (folder / "inference.pdiparams").read_bytes()
    _saved(nets.Net(classes=5), folder, _PICTURES)
    (folder / "inference.pdiparams").write_bytes(theirs)


def _network(batch: int | str, *further: onnx.NodeProto) -> onnx.ModelProto:
    """A convolution, a mean and a linear layer, as other frameworks write them."""
    random = np.random.default_rng(1)
    weights = {"conv": (8, 3, 3, 3), "bias": (8,), "linear": (nets.CLASSES, 8), "offset": (nets.CLASSES,)}
    values = [numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name) for name, shape in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "conv", "bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "linear", "offset"], ["scores"], transB=1),
        *further,
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 3, 8, 8])
    last = nodes[-1].output[0]
    y = helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, [batch, nets.CLASSES])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(helper.make_graph(nodes, "network", [x], [y], values), opset_imports=opsets, ir_version=8)


def of_onnx(folder: Path) -> None:
    onnx.save(_network("batch"), folder / "model.onnx")


def of_one_row(folder: Path) -> None:
    """As PyTorch exports without dynamic axes."""
    onnx.save(_network(1), folder / "model.onnx")


def custom_operator(folder: Path) -> None:
    onnx.save(_network("batch", helper.make_node("Sharpen", ["scores"], ["sharp"], domain="com.example")), folder / "model.onnx")


def cut_off_onnx(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(_network("batch").SerializeToString()[:500])


def unused_input(folder: Path) -> None:
    """As an export leaves a mask that the model never read."""
    model = _network("batch")
    model.graph.input.append(helper.make_tensor_value_info("mask", onnx.TensorProto.INT64, ["batch", "length"]))
    onnx.save(model, folder / "model.onnx")


def quantised(folder: Path) -> None:
    steps = (helper.make_node("QuantizeLinear", ["scores", "step"], ["q"]), helper.make_node("DequantizeLinear", ["q", "step"], ["y"]))
    model = _network("batch", *steps)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "step"))
    onnx.save(model, folder / "model.onnx")


def half_precision(folder: Path) -> None:
    kinds = (("scores", "half", onnx.TensorProto.FLOAT16), ("half", "y", onnx.TensorProto.FLOAT))
    onnx.save(_network("batch", *(helper.make_node("Cast", [one], [two], to=kind) for one, two, kind in kinds)), folder / "model.onnx")


SPECIMENS = [
    FileSpecimen("exported", exported, JSON, "paddle.jit.save", factory=""),
    FileSpecimen("probabilities", probabilities, JSON, "ends in a softmax", factory=""),
    FileSpecimen("static", static, JSON, "save_inference_model of static mode", factory=""),
    FileSpecimen("old-exported", exported, OLD, "the format before Paddle 3", factory=""),
    FileSpecimen("two-inputs", two_inputs, JSON, "two inputs, two outputs", factory="", inputs=(PICTURE, NUMBERS)),
    FileSpecimen("of-text", of_text, JSON, "a dynamic length", factory="", reader="texts", inputs=(TEXT,)),
    FileSpecimen("one-batch", one_batch, JSON, "one batch size", factory="", refused="batch"),
    FileSpecimen("without-parameters", without_parameters, JSON, "half of it was copied", factory="", refused=r"inference\.pdiparams"),
    FileSpecimen("onnx", of_onnx, ONNX, "a file of another framework", factory=""),
    FileSpecimen("onnx-of-one-row", of_one_row, ONNX, "exported for one row", factory=""),
    FileSpecimen("onnx-custom", custom_operator, ONNX, "an operator that nobody has", factory="", refused="com.example|Sharpen"),
    FileSpecimen("onnx-unused-input", unused_input, ONNX, "an input that changes nothing", factory=""),
    FileSpecimen("onnx-quantised", quantised, ONNX, "rounded to int8", factory="", refused="is quantised"),
    FileSpecimen("onnx-half", half_precision, ONNX, "computes in float16", factory="", refused="computes in float16"),
    FileSpecimen("onnx-cut-off", cut_off_onnx, ONNX, "half a file", factory="", refused="is no ONNX|incomplete|cannot be read"),
    FileSpecimen("others-parameters", others_parameters, JSON, "two exports mixed", factory="", refused="parameters|weights"),
]


def environment(specimen: FileSpecimen) -> dict[str, str]:
    """What the script of a specimen needs in its environment: Paddle writes its former format if it is told before its import."""
    return {**os.environ, **({"FLAGS_enable_pir_api": "0"} if specimen.source == OLD else {})}
