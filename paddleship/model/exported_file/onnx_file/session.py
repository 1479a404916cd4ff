"""The `.onnx` file itself in ONNX Runtime, without optimisation of its graph: what the layer of its program must answer like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

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

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs, in the order of the file. A file that takes one row is asked once for each."""
        items = self._session.get_inputs()
        originals = [item.name for item in items]
        given = {original: inputs[name] for original, name in zip(originals, arguments(originals), strict=True)}
        if all(item.shape[:1] != [1] for item in items):
            return self._ask(given)
        rows = [self._ask({name: array[row : row + 1] for name, array in given.items()}) for row in range(len(next(iter(given.values()))))]
        return [np.concatenate(parts) for parts in zip(*rows, strict=True)]

    def _ask(self, given: Mapping[str, Array]) -> list[Array]:
        found: list[Array] = self._session.run(None, given)
        return found
