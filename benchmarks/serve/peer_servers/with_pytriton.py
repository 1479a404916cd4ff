"""Triton, through PyTriton, with its dynamic batcher and no wait."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import served
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def main() -> None:
    folder, port = served.arguments()
    _mend_embedded_python()
    model = served.load(folder)

    @batch
    def infer(**columns: Any) -> dict[str, Any]:
        texts = {spec.name for spec in model.requests if spec.dtype == "str"}
        taken = {name: np.char.decode(values[:, 0].astype(bytes), "utf-8") if name in texts else values for name, values in columns.items()}
        return {name: _column(values) for name, values in served.answer(model, taken).items()}

    inputs = [_tensor(spec) for spec in model.requests]
    outputs = [_tensor(spec) for spec in model.outputs]
    config = TritonConfig(http_address="127.0.0.1", http_port=port, grpc_port=port + 1, metrics_port=port + 2, log_verbose=0)
    name = json.loads((folder / "candidate.json").read_text(encoding="utf-8"))["model"]
    with Triton(config=config) as triton:
        batching = DynamicBatcher(max_queue_delay_microseconds=0)
        triton.bind(name, infer, inputs, outputs, config=ModelConfig(max_batch_size=32, batcher=batching))
        triton.serve()


def _mend_embedded_python() -> None:
    """Let Triton's own Python, older than the standard library that it finds here, make the locks that multiprocessing needs."""
    start = Path(sysconfig.get_path("purelib")) / "sitecustomize.py"
    start.write_text("import threading\nthreading.RLock = threading._PyRLock\n", encoding="utf-8")


def _tensor(spec: Any) -> Tensor:
    sizes = [size if isinstance(size, int) else -1 for size in spec.shape[1:]]
    return Tensor(name=spec.name, dtype=bytes if spec.dtype == "str" else np.dtype(spec.dtype), shape=tuple(sizes) or (1,))


def _column(values: Any) -> Any:
    return np.char.encode(np.asarray(values)[:, None], "utf-8") if isinstance(values, list) else values


if __name__ == "__main__":
    main()
