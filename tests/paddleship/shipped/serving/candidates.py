"""ONNX candidates that the tests of the server serve."""

import onnx
from onnx import TensorProto, helper

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec


def make_candidate(folder, nodes, inputs, outputs, **facts):
    """An ONNX candidate of `nodes`; inputs and outputs are TensorSpecs."""

    def values(specs):
        return [
            helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec.numpy_dtype), list(spec.shape)) for spec in specs
        ]

    graph = helper.make_graph(nodes, "model", values(inputs), values(outputs))
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    settings = {
        "preprocess": {"kind": "tensors"},
        "max_batch": 4096,
        "task": "regression",
        "warm_shapes": ({spec.name: [2, *_fixed(spec)] for spec in inputs},),
    }
    return Candidate(
        name="onnxruntime",
        model="tiny",
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        sources={spec.name: place for place, spec in enumerate(outputs)},
        weights_sha256="0" * 64,
        **{**settings, **facts},
    ).save(folder)


def _fixed(spec):
    return [3 if isinstance(size, str) else size for size in spec.shape[1:]]


def make_tensors(folder):
    """y = x · [[1, -1], [1, 0]] with a range on x, so two scores per row, and log(y) where it is asked for nonsense."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [1, -1, 1, 0])
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weights),
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Log", ["x"], ["logs"]),
    ]
    x = TensorSpec("x", "float32", ("batch", 2), low=-1, high=100)
    outputs = [TensorSpec("scores", "float32", ("batch", 2)), TensorSpec("logs", "float32", ("batch", 2))]
    make_candidate(folder, nodes, [x], outputs, task="classification", classes=("否", "yes"))
    return folder


def make_texts(folder):
    """The ids of the first four characters, as numbers."""
    nodes = [helper.make_node("Cast", ["ids"], ["values"], to=TensorProto.FLOAT)]
    specs = [TensorSpec("ids", "int64", ("batch", "length"))], [TensorSpec("values", "float32", ("batch", "length"))]
    preprocess = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["好"]}
    preprocess |= {"unicode_form": "NFKC", "max_length": 4, "multiple_of": 2}
    make_candidate(folder, nodes, *specs, preprocess=preprocess)
    return folder


def make_pictures(folder, *, shape=("batch", 3, 8, 8), **params):
    """The pixels of a picture as they are encoded."""
    nodes = [helper.make_node("Identity", ["x"], ["pixels"])]
    specs = [TensorSpec("x", "float32", shape)], [TensorSpec("pixels", "float32", shape)]
    entry = {"kind": "image", "column": "photo", "resize": "exact", "max_bytes": 200_000, "max_pixels": 1_000_000} | params
    make_candidate(folder, nodes, *specs, preprocess={"inputs": {"x": entry}}, max_batch=4)
    return folder


def make_numbers(folder, *, missing="median"):
    """A list of two numbers and one number, standardised and joined; what is missing is filled with 7, 9 and 5."""
    nodes = [
        helper.make_node("Constant", [], ["row"], value=helper.make_tensor("row", TensorProto.INT64, [2], [-1, 1])),
        helper.make_node("Reshape", ["age", "row"], ["ages"]),
        helper.make_node("Concat", ["size", "ages"], ["y"], axis=1),
    ]
    inputs = [TensorSpec("size", "float32", ("batch", 2)), TensorSpec("age", "float32", ("batch",))]
    size = {"kind": "numbers", "column": "size", "mean": [1.0, 2.0], "deviation": [2.0, 4.0]}
    age = {"kind": "numbers", "column": "age", "mean": [1.0], "deviation": [1.0]}
    if missing != "drop":
        size, age = ({**entry, "missing": missing, "fill": fill} for entry, fill in ((size, [7.0, 9.0]), (age, [5.0])))
    entries = {"size": size, "age": age}
    make_candidate(folder, nodes, inputs, [TensorSpec("y", "float32", ("batch", 3))], preprocess={"inputs": entries}, max_batch=8)
    return folder


def make_all_datatypes(folder, dtypes=("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")):
    """Every input of numbers, as it came."""
    nodes = [helper.make_node("Identity", [dtype], [f"{dtype}_out"]) for dtype in dtypes]
    specs = [[TensorSpec(f"{dtype}{end}", dtype, ("batch", 3)) for dtype in dtypes] for end in ("", "_out")]
    make_candidate(folder, nodes, *specs)
    return folder


def make_large(folder, values=3 * 224 * 224):
    """Rows as large as pictures for resnet18, as they came."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    make_candidate(folder, nodes, *([TensorSpec(name, "float32", ("batch", values))] for name in "xy"), max_batch=8)
    return folder


def make_picking(folder):
    """y = x[steps - 1], which ONNX Runtime refuses where a step is beyond the length."""
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("Constant", [], ["one"], value=one),
        helper.make_node("Constant", [], ["axis"], value=axis),
        helper.make_node("Sub", ["steps", "one"], ["places"]),
        helper.make_node("Unsqueeze", ["places", "axis"], ["columns"]),
        helper.make_node("GatherElements", ["x", "columns"], ["y"], axis=1),
    ]
    inputs = [TensorSpec("x", "float32", ("batch", "length")), TensorSpec("steps", "int64", ("batch",), low=1)]
    make_candidate(folder, nodes, inputs, [TensorSpec("y", "float32", ("batch", 1))])
    return folder
