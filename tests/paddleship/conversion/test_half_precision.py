"""float16: numbers that it cannot hold stay in float32, found by running, and the converted program still answers as before."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from paddleship.conversion import converting, half_precision
from paddleship.errors import CandidateError

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(4, 3)).astype(np.float32)


def program(folder, operators, constants=(), *, inputs=("x",)):
    """A program from x with 4 columns to y with 3, in `folder`/source."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 4), ("y", 3))]
    weights = {"w": WEIGHT, **{name: np.asarray(value, np.float32) for name, value in dict(constants).items()}, "axes": np.array([1])}
    nodes = [helper.make_node(kind, list(given), [made], name=name) for name, kind, given, made in operators]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    for name in ("source", "target"):
        (folder / name).mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "source/model.onnx"))
    return folder / "source", folder / "target"


def batches(scale=1.0):
    return [{"x": (RANDOM.normal(size=(4, 4)) * scale).astype(np.float32)} for _ in range(4)]


def answers(folder, given):
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    return [session.run(None, batch)[0] for batch in given]


PRODUCT = ("product", "MatMul", "xw", "y")
SQUARES = [
    ("up", "Mul", ("x", "big"), "a"),
    ("square", "Mul", "aa", "b"),
    ("down", "Mul", ("b", "small"), "c"),
    ("product", "MatMul", "cw", "y"),
]
NORM = [
    ("square", "Mul", "xx", "a"),
    ("sum", "ReduceSum", ("a", "axes"), "b"),
    ("root", "Sqrt", "b", "c"),
    ("divide", "Div", "xc", "d"),
    ("product", "MatMul", "dw", "y"),
]
MASK = [("product", "MatMul", "xw", "a"), ("mask", "Add", ("a", "far"), "b"), ("share", "Softmax", "b", "y")]


@pytest.mark.parametrize(
    ("operators", "constants", "scale", "kept"),
    [
        ([PRODUCT], {}, 1, "none"),
        (SQUARES, {"big": 1000, "small": 1e-6}, 1, "Mul (square, down)"),
        (NORM, {}, 1e-4, "Mul (square); ReduceSum (sum); Sqrt (root); Div (divide)"),
        (MASK, {"far": [0, 0, -1e9]}, 1, "Add (mask); Softmax (share)"),
        ([("up", "Mul", ("x", "big"), "a"), ("product", "MatMul", "aw", "y")], {"big": 1e6}, 1, "Mul (up); MatMul (product)"),
    ],
    ids=["nothing", "squares overflow", "squares vanish, and a division by them overflows", "a mask", "the answer is large"],
)
def test_what_float16_cannot_hold_stays_in_float32_and_the_answers_stay(tmp_path, operators, constants, scale, kept):
    source, target = program(tmp_path, operators, constants)
    given = batches(scale)
    assert half_precision.convert(source, target, given) == {"float32_operators": kept}
    made = onnx.load(str(target / "model.onnx"))
    onnx.checker.check_model(made)
    assert any(tensor.data_type == TensorProto.FLOAT16 for tensor in made.graph.initializer) is (kept != "Mul (up); MatMul (product)")
    for mine, exact in zip(answers(target, given), answers(source, given), strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, exact, atol=2e-3 * np.abs(exact).max())


def test_a_number_near_the_largest_is_enough_because_other_rows_may_have_larger_ones(tmp_path):
    source, target = program(tmp_path, [("up", "Mul", ("x", "big"), "a"), ("product", "MatMul", "aw", "y")], {"big": 1})
    near = [{"x": np.full((1, 4), 20000, np.float32)}]
    assert half_precision.convert(source, target, near) == {"float32_operators": "Mul (up); MatMul (product)"}
    assert half_precision.convert(source, target, [{"x": np.full((1, 4), 10, np.float32)}]) == {"float32_operators": "none"}


def test_numbers_that_are_infinite_in_float32_too_are_no_reason(tmp_path):
    source, target = program(tmp_path, [PRODUCT])
    given = [{"x": np.full((4, 4), np.inf, np.float32)}]
    assert half_precision.convert(source, target, given) == {"float32_operators": "none"}


def test_without_rows_it_is_not_known_where_float16_overflows(tmp_path):
    with pytest.raises(CandidateError, match="it is unknown where float16 overflows"):
        half_precision.convert(*program(tmp_path, [PRODUCT]), [])


def test_a_program_with_a_branch_is_refused(tmp_path):
    source, target = program(tmp_path, [PRODUCT])
    model = onnx.load(str(source / "model.onnx"))
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["inner"])], "body", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)]
    )
    del model.graph.node[:]
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    model.graph.node.append(helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body))
    onnx.save(model, str(source / "model.onnx"))
    with pytest.raises(CandidateError, match="takes no program with an ONNX If"):
        half_precision.convert(source, target, batches())


def test_many_kept_operators_are_counted(tmp_path):
    many = [(f"add{index}", "Add", (f"a{index}", "far"), f"a{index + 1}") for index in range(7)]
    source, target = program(tmp_path, [("product", "MatMul", "xw", "a0"), *many, ("last", "Identity", ("a7",), "y")], {"far": 1e6})
    noted = half_precision.convert(source, target, batches())["float32_operators"]
    assert noted == "Add (add0, add1, add2, add3, add4 and 2 more); Identity (last)"


def test_the_description_of_a_candidate_and_the_report_name_what_stays_in_float32(workshop_of, tmp_path):
    converter = workshop_of("Squares", batches=[{"x": np.full((2, 16), 200, np.float32)}])
    (tmp_path / "half").mkdir()
    made, noted = converter._fill(converting.plan("onnxruntime-cuda-float16", converter._base, threads=1), tmp_path / "half")
    assert made.options["float32_operators"] == noted["float32_operators"]
    assert noted["float32_operators"].startswith("Mul (")
    assert (tmp_path / "half/model.onnx").exists()
