"""The exported file itself in Paddle Inference, without oneDNN and without passes: what the layer of its program must answer like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class PlainPredictor:
    def __init__(self, program: Path, parameters: Path | None) -> None:
        from paddle import inference

        config = inference.Config(str(program), str(parameters) if parameters else "")
        config.disable_gpu()
        config.disable_mkldnn()
        config.switch_ir_optim(False)
        config.disable_glog_info()
        self._predictor = inference.create_predictor(config)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs, in the order of the program."""
        for name in self._predictor.get_input_names():
            self._predictor.get_input_handle(name).copy_from_cpu(np.asarray(inputs[name], order="C"))
        self._predictor.run()
        return [self._predictor.get_output_handle(name).copy_to_cpu() for name in self._predictor.get_output_names()]
