"""The model as MLflow loads it: the candidate folder in its runtime. This file is written into each model version.

It takes the same columns as the server, as a DataFrame or a dict of lists, and returns a dict of arrays by output name, with the class
names as `label` for a classifier. A batch of one keeps its batch dimension. More rows than the proof covered are answered in parts.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

from paddleship.errors import RequestError
from paddleship.shipped.serving.model import ServedModel


class CandidateModel(PythonModel):
    def load_context(self, context):
        self._model = ServedModel(Path(context.artifacts["candidate"]))

    def predict(self, context, model_input: pd.DataFrame, params=None):  # noqa: ARG002 MLflow's signature
        columns = model_input.to_dict("list") if hasattr(model_input, "to_dict") else model_input
        columns = {name: _rows(values) for name, values in columns.items()}
        rows, most = len(next(iter(columns.values()))), self._model.limits.max_batch
        parts = [
            self._model.predict({name: values[start : start + most] for name, values in columns.items()}) for start in range(0, rows, most)
        ]
        return parts[0] if len(parts) == 1 else {name: _joined([part[name] for part in parts], most) for name in parts[0]}


def _joined(parts, most):
    """One output of several batches; labels are lists."""
    if isinstance(parts[0], list):
        return [label for part in parts for label in part]
    try:
        return np.concatenate(parts)
    except ValueError:
        raise RequestError(
            f"the answers to {most} rows each have different shapes and cannot be joined: send {most} rows at most"
        ) from None


def _rows(values):
    """MLflow turns a dict with one list of texts into a frame with one row; undo that."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) and values[0] and isinstance(values[0][0], str) else values


set_model(CandidateModel())
