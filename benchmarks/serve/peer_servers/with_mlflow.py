"""`mlflow models serve`, of a model in Python that loads the candidate."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mlflow
import served


class Served(mlflow.pyfunc.PythonModel):
    def load_context(self, context: Any) -> None:
        self._model = served.load(Path(os.environ["CANDIDATE"]))

    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
        columns = {name: column.tolist() for name, column in model_input.items()}
        answer = served.answer(self._model, columns)
        return {name: values if isinstance(values, list) else values.tolist() for name, values in answer.items()}


def main() -> None:
    folder, port = served.arguments()
    os.environ |= {"CANDIDATE": str(folder), "PYTHONPATH": str(Path(__file__).parent), "MLFLOW_DISABLE_TELEMETRY": "true"}
    mlflow.pyfunc.save_model("model", python_model=__file__, pip_requirements=[])
    program = str(Path(sys.executable).with_name("mlflow"))
    options = ["-m", "model", "--env-manager", "local", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.environ["PATH"] = f"{Path(program).parent}:{os.environ['PATH']}"
    os.execv(program, [program, "models", "serve", *options])  # noqa: S606 no shell


if __name__ == "__main__":
    main()
else:
    mlflow.models.set_model(Served())
