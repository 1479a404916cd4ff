"""Run an ONNX program on the CPU with what its operators write rounded to float16, and return every tensor.

ONNX Runtime's CPU provider computes a float16 program in float32 and does not round between most of its operators, so it shows no overflow.
Here explicit casts round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from paddleship.shipped.computing.preprocess import Batch

TensorValues = Mapping[str, Any]

_ROUNDED = "/rounded"


def run(model: Any, samples: Sequence[Batch]) -> Iterator[TensorValues]:
    """The outputs of the model for each batch, by name, computed as they are written."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    for batch in samples:
        yield dict(zip(names, session.run(names, batch), strict=True))


def values(model: Any, samples: Sequence[Batch], *, floats: Collection[str] = (), kept: Collection[str] = ()) -> Iterator[TensorValues]:
    """Inputs and what every operator writes, by name, for each batch.

    The float32 tensors in `floats` are rounded, except those that operators in `kept` get from inputs or from each other.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    wide = {item.name for item in model.graph.input} | {name for each in model.graph.node if each.name in kept for name in each.output}
    written = [name for operator in model.graph.node for name in operator.output if name]
    for operator in copy.graph.node:
        for index, name in enumerate(operator.input):
            if name in floats and not (operator.name in kept and name in wide):
                operator.input[index] = name + _ROUNDED
    for name in sorted(floats):
        copy.graph.node.append(onnx.helper.make_node("Cast", [name], [f"{name}/small"], to=onnx.TensorProto.FLOAT16))
        copy.graph.node.append(onnx.helper.make_node("Cast", [f"{name}/small"], [name + _ROUNDED], to=onnx.TensorProto.FLOAT))
    shown = {name: name + _ROUNDED if name in floats and name not in wide else name for name in written}
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown.values())
    for batch, found in zip(samples, run(copy, samples), strict=True):
        yield dict(batch) | {name: found[own] for name, own in shown.items()}
