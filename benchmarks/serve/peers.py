"""Other model servers for the same candidate: how each is installed, started, asked and read.

All of them answer with the code, the runtime and the model of our server, below its transport, so that only the servers differ. Each has
one process for the model, and batches what waits as it can without a wait; `mlflow models serve` and MLServer do not batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.peer_environments import Environment
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.transports.http import protocol

_SCRIPTS = Path(__file__).with_name("peer_servers")
_PATH = "/v2/models/{model}/infer"
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Peer:
    """`packages` are those of its environment; `body` makes a request from the columns of a row, `read` finds the first output's row."""

    packages: tuple[str, ...]
    script: str
    path: str
    body: Callable[[Columns, Sequence[TensorSpec]], bytes]
    read: Callable[[Any], Any]

    @property
    def environment(self) -> Environment:
        runtime = f"onnxruntime=={metadata.version('onnxruntime')}"
        return Environment(self.script.removeprefix("with_"), (*self.packages, runtime, "orjson", "pillow", "tokenizers"))

    def command(self, folder: Path, port: int) -> list[str]:
        return [str(self.environment.python), str(_SCRIPTS / f"{self.script}.py"), str(folder), str(port)]


def open_inference(columns: Columns, specs: Sequence[TensorSpec]) -> bytes:
    """A request in the JSON form of the Open Inference Protocol."""
    return _dumps({"inputs": [protocol.encode_tensor(spec.name, columns[spec.name]) for spec in specs]})


def _triton(columns: Columns, specs: Sequence[TensorSpec]) -> bytes:
    tensors = [protocol.encode_tensor(spec.name, columns[spec.name]) for spec in specs]
    return _dumps({"inputs": [{**one, "shape": [*one["shape"], 1]} if len(one["shape"]) == 1 else one for one in tensors]})


def _columns(columns: Columns, specs: Sequence[TensorSpec]) -> bytes:
    return _dumps({spec.name: columns[spec.name] for spec in specs})


def _frame(columns: Columns, specs: Sequence[TensorSpec]) -> bytes:
    row = [np.asarray(columns[spec.name]).tolist()[0] for spec in specs]
    return _dumps({"dataframe_split": {"columns": [spec.name for spec in specs], "data": [row]}})


def _dumps(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def first_output(document: Any) -> Any:
    """The values of the first output in an answer of the Open Inference Protocol."""
    return document["outputs"][0]["data"]


PEERS = {
    "MLServer": Peer(("mlserver",), "with_mlserver", _PATH, open_inference, first_output),
    "LitServe": Peer(("litserve",), "with_litserve", "/predict", _columns, lambda document: next(iter(document.values()))),
    "mlflow models serve": Peer(
        ("mlflow", "fastapi", "uvicorn"),
        "with_mlflow",
        "/invocations",
        _frame,
        lambda document: next(iter(document["predictions"].values())),
    ),
    "Triton (PyTriton)": Peer(("nvidia-pytriton",), "with_pytriton", _PATH, _triton, first_output),
}
