"""MLServer, with its model in the process of its server."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import served
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Served(MLModel):
    async def load(self) -> bool:
        self._model = served.load(Path(self.settings.parameters.uri))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        columns = {one.name: (StringCodec if one.datatype == "BYTES" else NumpyCodec).decode_input(one) for one in payload.inputs}
        answer = served.answer(self._model, columns)
        outputs = [(StringCodec if isinstance(values, list) else NumpyCodec).encode_output(name, values) for name, values in answer.items()]
        return InferenceResponse(model_name=self.name, outputs=outputs)


def main() -> None:
    folder, port = served.arguments()
    name = json.loads((folder / "candidate.json").read_text(encoding="utf-8"))["model"]
    model = {"name": name, "implementation": f"{Path(__file__).stem}.Served", "parameters": {"uri": str(folder)}}
    server = {"host": "127.0.0.1", "http_port": port, "grpc_port": port + 1, "metrics_port": port + 2, "parallel_workers": 0}
    Path("model-settings.json").write_text(json.dumps(model), encoding="utf-8")
    Path("settings.json").write_text(json.dumps({**server, "access_log": False, "debug": False}), encoding="utf-8")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    program = str(Path(sys.executable).with_name("mlserver"))
    os.execv(program, [program, "start", "."])  # noqa: S606 no shell


if __name__ == "__main__":
    main()
