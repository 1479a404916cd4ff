"""A program that is newer than the runtime is refused with both versions."""

from types import SimpleNamespace

import pytest
from onnx import TensorProto, helper

from paddleship.errors import CandidateError
from paddleship.shipped.computing.runtimes import onnx_runtime


@pytest.mark.parametrize(
    ("opset", "ir_version", "text"),
    [(99, 8, r"does not load: opset 99, this runtime takes up to \d+"), (17, 99, r"IR version 99, this runtime takes up to \d+")],
)
def test_a_program_that_is_too_new_is_refused_with_both_versions(tmp_path, opset, ir_version, text):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "model", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(CandidateError, match=text):
        onnx_runtime.load(tmp_path, SimpleNamespace(options={}, threads=1))
