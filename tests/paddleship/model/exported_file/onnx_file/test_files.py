"""`.onnx` files as people have them, and damaged and malicious ones: right answers, or one line."""

import numpy as np
import onnx
import paddle
import pytest
from onnx import TensorProto, helper, numpy_helper

from paddleship.config.sections.model import Input
from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError
from paddleship.model.exported_file import formats
from paddleship.model.exported_file.onnx_file.session import PlainSession
from paddleship.model.exported_file.onnx_file.translating import Translation, arguments
from paddleship.model.float64 import Doubled
from paddleship.shipped.computing import layers, program_layer
from tests.small_onnx import write

pytestmark = pytest.mark.filterwarnings("ignore:Tensor do not have 'place'")  # Paddle, where it writes a program
node = helper.make_node
LENGTH = ("x", ["batch", "length", 4])


def layer_of(path, sizes=()):
    """The table and the layer of a file; `sizes` are those that model.inputs declares, by the names of inputs."""
    try:
        translation = Translation(path)
        inputs = {item["name"]: item["shape"] for item in translation.inputs()}
        table, weights = translation.read(inputs | dict(sizes))
    finally:
        paddle.disable_static()
    layer = program_layer.build(table)
    assert layers.fill(layer, weights) == []
    layer.eval()
    return table, layer


def ask(layer, *arrays):
    with paddle.no_grad():
        result = layer(*map(paddle.to_tensor, arrays))
    return [tensor.numpy() for tensor in (result if isinstance(result, list | tuple) else [result])]


def require_same(path, *shapes, sizes=()):
    """Compare the layer of a file with ONNX Runtime, on random rows of these shapes. Returns the table."""
    table, layer = layer_of(path, sizes)
    session, random = PlainSession(path), np.random.default_rng(0)
    for shape in shapes:
        x = random.normal(size=shape).astype(np.float32)
        (name,) = [item["name"] for item in table["inputs"]]
        for answer, expected in zip(ask(layer, x), session.run({name: x}), strict=True):
            assert (answer.shape, answer.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
    return table


def attention(path):
    """Self-attention as an exporter writes it: sizes are asked, calculated and concatenated."""

    def shaped(name, result, last):
        return [node("Concat", ["b", "l", *last], [f"{name}_shape"], axis=0), node("Reshape", [name, f"{name}_shape"], [result])]

    nodes = [node("Shape", ["x"], ["shape"])]
    for axis, name in enumerate(("b", "l")):
        nodes += [node("Gather", ["shape", f"axis_{axis}"], [f"{name}_0"]), node("Unsqueeze", [f"{name}_0", "zero"], [name])]
    for name in "qkv":
        nodes += [node("MatMul", ["x", f"{name}.weight"], [name]), *shaped(name, f"{name}_4", ["heads", "minus"])]
        nodes += [node("Transpose", [f"{name}_4"], [f"{name}_h"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [
        node("MatMul", ["q_h", "k_h"], ["scores_0"]), node("Div", ["scores_0", "root"], ["scores_1"]),
        node("Concat", ["l", "l"], ["square"], axis=0),
        node("ConstantOfShape", ["square"], ["ones"], value=numpy_helper.from_array(np.array([1], np.float32))),
        node("Trilu", ["ones"], ["mask"], upper=0), node("Cast", ["mask"], ["allowed"], to=TensorProto.BOOL),
        node("Where", ["allowed", "scores_1", "never"], ["scores"]),
        node("Softmax", ["scores"], ["shares"]), node("MatMul", ["shares", "v_h"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]), *shaped("back", "joined", ["width"]),
        node("LayerNormalization", ["joined", "scale", "bias"], ["y"], epsilon=1e-6),
    ]  # fmt: skip
    random = np.random.default_rng(1)
    weights = {f"{name}.weight": random.normal(size=(4, 4)).astype(np.float32) for name in "qkv"}
    weights |= {"axis_0": np.array(0), "axis_1": np.array(1), "zero": np.array([0]), "heads": np.array([2]), "minus": np.array([-1])}
    weights |= {"width": np.array([4]), "root": np.float32(2**0.5), "never": np.float32(-np.inf)}
    weights |= {"scale": np.full(4, 1.5, np.float32), "bias": np.zeros(4, np.float32)}
    return write(path, nodes, [LENGTH], [("y", None)], weights=weights)


def test_calculated_shapes_stay_dynamic_and_a_constant_follows_the_precision(tmp_path):
    path = attention(tmp_path / "model.onnx")
    table = require_same(path, (1, 3, 4), (2, 5, 4))
    assert {item["name"] for item in table["parameters"]} >= {"q/weight", "scale"}
    layer = layer_of(path)[1]
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    with Doubled():
        (double,) = ask(layer, x.astype(np.float64))
    assert double.dtype == np.float64
    assert 0 < np.abs(double - ask(layer, x)[0]).max() < 1e-5


def test_a_size_that_is_declared_as_fixed_makes_numbers_of_what_is_calculated_from_it(tmp_path):
    path = attention(tmp_path / "model.onnx")
    table = require_same(path, (2, 5, 4), sizes={"x": [-1, 5, 4]})
    assert len(table["operators"]) < len(layer_of(path)[0]["operators"])


def test_a_file_for_one_row_answers_several(tmp_path):
    weights = {"shape": np.array([1, -1]), "w": np.ones((12, 2), np.float32)}
    nodes = [node("Reshape", ["input.1", "shape"], ["flat"]), node("MatMul", ["flat", "w"], ["y"])]
    path = write(tmp_path / "model.onnx", nodes, [("input.1", [1, 3, 4])], [("y", [1, 2])], weights=weights)
    assert require_same(path, (1, 3, 4), (5, 3, 4))["inputs"][0]["name"] == "input_1"


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_recurrent_layer_answers_as_the_file(kind, gates, direction, tmp_path):
    count, random = 2 if direction == "bidirectional" else 1, np.random.default_rng(0)
    shapes = {"w": (count, gates * 3, 4), "r": (count, gates * 3, 3), "b": (count, gates * 6)}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node(kind, ["t", "w", "r", "b"], ["y", "h"], direction=direction, hidden_size=3, **extra),
    ]
    require_same(write(tmp_path / "model.onnx", nodes, [LENGTH], [("y", None), ("h", None)], weights=weights), (1, 5, 4), (3, 2, 4))


def test_a_branch_that_depends_on_the_rows_stays_a_branch(tmp_path):
    branch = {
        name: helper.make_graph([node(kind, ["x", "two"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
        for name, kind in (("yes", "Mul"), ("no", "Add"))
    }
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "two"], ["large"]),
        node("If", ["large"], ["y"], then_branch=branch["yes"], else_branch=branch["no"]),
    ]  # fmt: skip
    path = write(tmp_path / "model.onnx", nodes, [("x", ["batch", 2])], [("y", ["batch", 2])], weights={"two": np.float32(2)})
    layer = layer_of(path)[1]
    for x in (np.full((2, 2), 5, np.float32), np.full((2, 2), -5, np.float32)):
        np.testing.assert_array_equal(ask(layer, x)[0], PlainSession(path).run({"x": x})[0])


def test_a_function_of_the_file_and_operators_that_onnx_defines_by_others_are_written(tmp_path):
    own = helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)])
    nodes = [node("Twice", ["x"], ["t"], domain="own"), node("Shrink", ["t"], ["y"], lambd=0.7, bias=0.1)]
    model = onnx.load(write(tmp_path / "model.onnx", nodes, [("x", ["batch", 4])], [("y", ["batch", 4])], functions=[own]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, str(tmp_path / "model.onnx"))
    require_same(tmp_path / "model.onnx", (3, 4))


def test_weights_in_another_file_are_read_and_are_part_of_the_hash(tmp_path):
    random = np.random.default_rng(0)
    path = write(tmp_path / "model.onnx", [node("MatMul", ["x", "w"], ["y"])], [("x", ["batch", 4])], [("y", ["batch", 900])],
                 weights={"w": random.normal(size=(4, 900)).astype(np.float32)})  # fmt: skip
    onnx.save_model(onnx.load(str(path)), str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    require_same(path, (3, 4))
    file = formats.of(ExportedFile(exported=str(path)))
    before = file.digest()
    (tmp_path / "weights.bin").write_bytes(b"\1" + (tmp_path / "weights.bin").read_bytes()[1:])
    assert file.digest() != before


def test_names_of_inputs_become_names_of_arguments():
    assert arguments(["x", "input.1", "input:1", "0", "if"]) == ["x", "input_1", "input_1_1", "x_0", "x_if"]


# each writes a file that cannot be used
def cut(path):
    write(path, [node("MatMul", ["x", "w"], ["y"])], [("x", ["b", 4])], [("y", ["b", 4])], weights={"w": np.ones((4, 4), np.float32)})
    path.write_bytes(path.read_bytes()[:-40])


def outside(path):
    (path.parent.parent / "secret.bin").write_bytes(bytes(64))
    model = onnx.load(write(path, [node("MatMul", ["x", "w"], ["y"])], [("x", ["b", 4])], [("y", ["b", 4])],
                            weights={"w": np.ones((4, 4), np.float32)}))  # fmt: skip
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    onnx.save(model, str(path))


def huge(path):
    write(path, [node("MatMul", ["x", "w"], ["y"])], [("x", ["b", 4])], [("y", ["b", 4])], weights={"w": np.ones((4, 4), np.float32)})
    model = onnx.load(str(path))
    model.graph.initializer[0].dims[:] = [2**30, 2**30]
    onnx.save(model, str(path))


def of(*nodes, opset=17, inputs=(("x", ["b", 4]),), **weights):
    return lambda path: write(path, list(nodes), list(inputs), [("y", None)], weights=weights, opset=opset)


BROKEN = {
    "no protobuf": (lambda path: path.write_bytes(b"no model"), "is no ONNX model, or it is incomplete"),
    "empty": (lambda path: path.write_bytes(b""), "is no ONNX model, or it is empty"),
    "cut off": (cut, "is no"),
    "weights outside its folder": (outside, r"takes weights from '../secret.bin', which is outside its folder"),
    "a huge initializer": (huge, "holds 'w' with other numbers than its shape has"),
    "a huge constant": (
        of(node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"]), s=np.array([2**20, 2**20])),
        r"'ConstantOfShape' \('c'\) that makes 1,099,511,627,776 elements",
    ),
    "a cycle": (of(node("Add", ["x", "y"], ["z"]), node("Relu", ["z"], ["y"])), "is no valid ONNX model"),
    "two values of one name": (of(node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"])), "is no valid ONNX model"),
    "an opset of the future": (of(node("Relu", ["x"], ["y"]), opset=99), "names opset 99, and 7 to"),
    "an opset of the past": (of(node("Relu", ["x"], ["y"]), opset=6), "names opset 6, and 7 to"),
    "a custom operator": (of(node("Attention", ["x"], ["y"], domain="com.microsoft")), "'Attention' .* of the domain 'com.microsoft'"),
    "an operator that is unknown": (of(node("Quux", ["x"], ["y"])), "'Quux' .*, which opset 17 does not have"),
    "an operator without a writer": (of(node("Unique", ["x"], ["y"])), "'Unique' .*, which is not supported"),
    "an option without a writer": (
        of(node("MaxPool", ["x"], ["y"], kernel_shape=[2], dilations=[2]), inputs=[("x", ["b", 1, 8])]),
        r"'MaxPool' \('y'\) with dilations, which is not supported",
    ),
    "text": (of(node("Identity", ["x"], ["y"]), inputs=[("x", ["b"], TensorProto.STRING)]), "takes 'x' as string, expected float32"),
    "half precision": (
        of(node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)),
        r"computes in float16 \(operator 'Cast' \('h'\)\): export the model in float32",
    ),
    "half precision from outside": (
        of(node("Relu", ["x"], ["y"]), inputs=[("x", ["b", 4], TensorProto.FLOAT16)]),
        "takes 'x' as float16: export the model in float32",
    ),
    "rounded to integers": (
        of(node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["y"]), s=np.float32(0.1)),
        r"is quantised \(operator 'QuantizeLinear' \('q'\)\): give the float32 model that it was quantised from",
    ),
    "rounded to integers by its values": (
        of(node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])),
        r"is quantised \(operator 'DynamicQuantizeLinear' \('q'\)\): give the float32 model",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_used_is_one_line(name, tmp_path):
    path = tmp_path / "theirs" / "model.onnx"
    path.parent.mkdir()
    spoil, message = BROKEN[name]
    spoil(path)
    with pytest.raises(ModelError, match=message) as refused:
        layer_of(path)
    assert len(str(refused.value).splitlines()) == 1
    assert str(path) in str(refused.value)


def test_weights_that_are_stored_in_eight_or_sixteen_bits_become_those_in_float32(tmp_path):
    random = np.random.default_rng(0)
    weights = {"int8": random.integers(-128, 128, (4, 3)).astype(np.int8), "half": random.normal(size=(3, 2)).astype(np.float16)}
    weights |= {"scale": np.array([0.01, 0.02, 0.03], np.float32), "zero": np.array([0, 1, -2], np.int8)}
    nodes = [
        node("DequantizeLinear", ["int8", "scale", "zero"], ["w"], axis=1), node("MatMul", ["x", "w"], ["z"]),
        node("Cast", ["half"], ["v"], to=TensorProto.FLOAT), node("MatMul", ["z", "v"], ["y"]),
    ]  # fmt: skip
    path = write(tmp_path / "model.onnx", nodes, [("x", ["b", 4])], [("y", ["b", 2])], weights=weights)
    table = require_same(path, (1, 4), (5, 4))
    assert {item["dtype"] for item in table["parameters"]} == {"float32"}


def test_an_input_that_changes_no_output_is_left_out(tmp_path):
    unused = [("mask", ["b", "l"], TensorProto.INT64), ("flag", [3], TensorProto.BOOL), ("dead", ["b", 4])]
    nodes = [node("Relu", ["dead"], ["nowhere"]), node("Tanh", ["x"], ["y"])]
    path = write(tmp_path / "model.onnx", nodes, [unused[0], ("x", ["b", 4]), *unused[1:]], [("y", ["b", 4])])
    table = require_same(path, (1, 4), (3, 4))
    assert [item["name"] for item in table["inputs"]] == ["x"]
    declared = [Input(name=name, dtype="float32", shape=["batch", 4]) for name in ("x", "dead")]
    with pytest.raises(ModelError, match=r"model.inputs are x, dead, and those of .* are x: write inputs: \[\{name: x, "):
        formats.of(ExportedFile(exported=str(path))).read(declared, timeout_s=60)


def test_inputs_that_are_declared_otherwise_are_one_line_with_those_to_write(tmp_path):
    path = of(node("Relu", ["x"], ["y"]))(tmp_path / "model.onnx")
    wrong = [Input(name="x", dtype="int64", shape=["batch", 4])]
    with pytest.raises(ModelError, match=r"declare 'x' as int64, .* takes float32: write inputs: \[\{name: x, dtype: float32, shape"):
        formats.of(ExportedFile(exported=str(path))).read(wrong, timeout_s=60)


def test_parameters_beside_an_onnx_file_are_one_line(tmp_path):
    with pytest.raises(ModelError, match=r"an \.onnx file names its own"):
        formats.of(ExportedFile(exported="model.onnx", parameters="w.bin"))
