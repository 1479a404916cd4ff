"""The model as MLflow loads it: the candidate folder through the runtime that serves it. Written into each model version.

Takes the columns that the server takes, as a DataFrame or a dict of lists; gives a dict of arrays by output name,
with the class names as `label` for a classifier. A batch of one keeps its batch dimension.
"""

from pathlib import Path

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

from paddleship.serving.model import ServedModel


class CandidateModel(PythonModel):
    def load_context(self, context):
        self._model = ServedModel(Path(context.artifacts["candidate"]), max_batch=1_000_000)

    def predict(self, context, model_input: pd.DataFrame, params=None):  # noqa: ARG002 MLflow's signature
        columns = model_input.to_dict("list") if hasattr(model_input, "to_dict") else model_input
        return self._model.predict({name: _rows(values) for name, values in columns.items()})


def _rows(values):
    """MLflow makes a dict with one list of texts a frame of one row; take the texts out again."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) and values[0] and isinstance(values[0][0], str) else values


set_model(CandidateModel())
