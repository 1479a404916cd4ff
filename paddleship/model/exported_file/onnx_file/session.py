"""The `.onnx` file itself in ONNX Runtime, without optimisation of its graph: what the layer of its program must answer like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import proto
from paddleship.model.exported_file.onnx_file.translating import arguments

Array = np.ndarray[Any, Any]


class PlainSession:
    def __init__(self, path: Path) -> None:
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._originals = [item.name for item in proto.inputs(proto.structure(path).graph)]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs, in the order of the file. A file that takes one row is asked once for each."""
        given = {original: inputs[name] for original, name in zip(self._originals, arguments(self._originals), strict=True)}
        items = [item for item in self._session.get_inputs() if item.name in given]
        if all(item.shape[:1] != [1] for item in items):
            return self._ask(given)
        rows = [self._ask({name: array[row : row + 1] for name, array in given.items()}) for row in range(len(next(iter(given.values()))))]
        return [np.concatenate(parts) for parts in zip(*rows, strict=True)]

    def _ask(self, given: Mapping[str, Array]) -> list[Array]:
        unused = {item.name: _zeros(item, given) for item in self._session.get_inputs() if item.name not in given}
        found: list[Array] = self._session.run(None, {**given, **unused})
        return found


def _zeros(item: Any, given: Mapping[str, Array]) -> Array:
    """A value of an input that changes no output, which ONNX Runtime wants nevertheless; the first dynamic size is that of the rows."""
    rows = len(next(iter(given.values())))
    shape = [size if isinstance(size, int) else rows if axis == 0 else 1 for axis, size in enumerate(item.shape)]
    kind = item.type.removeprefix("tensor(").removesuffix(")")
    return np.zeros(shape, {"float": "float32", "double": "float64", "string": "str"}.get(kind, kind))
