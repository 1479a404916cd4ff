"""Equal values in their order and logarithms of tiny probabilities: the written program answers as ONNX Runtime does with the file."""

import numpy as np
import onnxruntime
import paddle
import pytest
from onnx import TensorProto, helper

from paddleship.conversion import to_onnx
from paddleship.model.exported_file.onnx_file.translating import Translation
from paddleship.model.exported_file.plain_predictor import PlainPredictor
from paddleship.shipped.computing import program_layer
from tests import small_onnx
from tests.paddleship.model.exported_file.onnx_file.test_operators import answers

pytestmark = pytest.mark.filterwarnings("ignore:Tensor do not have 'place'")  # Paddle, where it writes a program
LARGE = np.array([[100, 0, 0, 21.5], [0, -70, -200, -1000], [3e4, -3e4, 0, 1], [1, 2, 3, 4]], np.float32)


def file_of(path, node, dtype, shape, *, opset=17, known=None):
    """A file of one operator on `x`, which has any number of rows, or on the array `known` besides an output that is `x`."""
    kind, nodes, weights = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [node], {"k": np.array([3])} if "k" in node.input else {}
    outputs = [(name, None, TensorProto.INT64 if name == "indices" else kind) for name in node.output]
    if known is not None:
        node.input[0], weights["known"] = "known", known
        nodes.append(helper.make_node("Identity", ["x"], ["same"]))
        outputs.append(("same", None, kind))
    return small_onnx.write(path, nodes, [("x", ["rows", *shape], kind)], outputs, weights=weights, opset=opset)


def require_as_the_file(path, x, given):
    expected = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    assert len(given) == len(expected)
    for answer, other in zip(given, expected, strict=True):
        assert answer.dtype == other.dtype
        np.testing.assert_allclose(answer, other, rtol=1e-6, atol=1e-6)


def tied(dtype, *shape):
    """Numbers of which many are equal; integers also at both ends of their range."""
    x = np.random.default_rng(0).integers(-1, 2, shape).astype(dtype)
    if x.dtype.kind == "i":
        x[0], x[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return x


def top(**attributes):
    return helper.make_node("TopK", ["x", "k"], ["values", "indices"], **attributes)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((4,), 1), ((200,), -1), ((6, 30), 1), (("length",), 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_equal_values_keep_their_order(tmp_path, dtype, shape, axis, largest):
    path = file_of(tmp_path / "model.onnx", top(axis=axis, largest=largest), dtype, shape)
    x = tied(dtype, 5, *(37 if size == "length" else size for size in shape))
    require_as_the_file(path, x, answers(path, [x]))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_the_first_or_the_last_of_equal_values_is_chosen(tmp_path, kind, last):
    path = file_of(tmp_path / "model.onnx", helper.make_node(kind, ["x"], ["indices"], axis=1, select_last_index=last), "float32", (200,))
    x = tied("float32", 5, 200)
    found = answers(path, [x])
    require_as_the_file(path, x, found)
    assert (found[0] == (x == x.max() if kind == "ArgMax" else x == x.min()).argmax(1, keepdims=True)).all() != bool(last)


@pytest.mark.parametrize(("opset", "shape"), [(17, (4,)), (12, (2, 2))])
def test_the_logarithm_of_a_tiny_probability_has_no_bound(tmp_path, opset, shape):
    path = file_of(tmp_path / "model.onnx", helper.make_node("LogSoftmax", ["x"], ["y"], axis=1), "float32", shape, opset=opset)
    x = LARGE.reshape(-1, *shape)
    require_as_the_file(path, x, answers(path, [x]))


@pytest.mark.parametrize(
    ("node", "known"),
    [(top(axis=1, largest=0), np.array([[1, 1, 0, 0]], np.float32)), (helper.make_node("LogSoftmax", ["x"], ["y"], axis=1), LARGE)],
)
def test_what_is_known_in_advance_follows_the_same_rules(tmp_path, node, known):
    path = file_of(tmp_path / "model.onnx", node, "float32", (4,), known=known)
    require_as_the_file(path, LARGE, answers(path, [LARGE]))


@pytest.mark.parametrize(
    ("node", "x"), [(top(axis=1), tied("float32", 5, 4)), (helper.make_node("LogSoftmax", ["x"], ["y"], axis=1), LARGE)]
)
def test_paddle_inference_and_the_conversion_to_onnx_keep_the_answers(tmp_path, node, x):
    path = file_of(tmp_path / "file.onnx", node, "float32", (4,))
    try:
        table, _ = Translation(path).read({"x": [-1, 4]})
    finally:
        paddle.disable_static()
    layer = program_layer.build(table)
    layer.eval()
    with pytest.warns(UserWarning, match="no variable in your model"):
        paddle.jit.save(layer, str(tmp_path / "model"), input_spec=[paddle.static.InputSpec([None, 4], "float32", "x")])
    require_as_the_file(path, x, PlainPredictor(tmp_path / "model.json", None).run({"x": x}))
    to_onnx.convert(tmp_path, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    require_as_the_file(path, x, session.run(None, {session.get_inputs()[0].name: x}))
