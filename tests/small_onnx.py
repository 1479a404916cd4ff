"""The picture classifier of `small_exported` as somebody else exported it: an `.onnx` file, made with ONNX's own helper."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests import small_exported


def write(path, nodes, inputs, outputs, *, weights=(), opset=17, **further):
    """Write a model of these operators; `inputs` and `outputs` are names with their shapes, float32 or with an element type."""

    def declared(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", [declared(*one) for one in inputs], [declared(*one) for one in outputs], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **further)
    onnx.save(model, str(path))
    return path


def export(folder, batch="batch", name="model.onnx"):
    """Write the classifier and the reader `pictures.py`: it compares the sums of the two halves, smoothed."""
    (folder / "pictures.py").write_text(small_exported.READER)
    (folder / "raw").touch()
    halves = np.zeros((2, 1, 8, 8), np.float32)
    halves[0, :, :, :4] = halves[1, :, :, 4:] = 0.25
    nodes = [
        helper.make_node("Conv", ["x", "smooth"], ["smoothed"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["smoothed", "one", "zero", "zero", "one"], ["normal"]),
        helper.make_node("Conv", ["normal", "halves"], ["sums"]),
        helper.make_node("Reshape", ["sums", "two"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=-1),
    ]
    weights = {
        "smooth": np.full((1, 1, 3, 3), 1 / 9, np.float32), "halves": halves, "two": np.array([1 if batch == 1 else 0, -1]),
        "one": np.ones(1, np.float32), "zero": np.zeros(1, np.float32),
    }  # fmt: skip
    return write(folder / name, nodes, [("x", [batch, 1, 8, 8])], [("y", [batch, 2])], weights=weights)


def values(folder, **source):
    """The values of params.yaml that point at the folder."""
    return small_exported.values(folder, **{"exported": str(folder / "model.onnx"), **source})
