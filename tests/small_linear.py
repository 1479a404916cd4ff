"""A linear model of a user in one module, for tests of `train`: y = x0 - x1, in 80 rows."""

SOURCE = """
import numpy as np
from paddle import nn


def read(raw):
    for values in np.random.default_rng(0).normal(size=(80, 2)).astype("float32"):
        yield {"x": values, "y": [values[0] - values[1]]}


def build():
    return nn.Linear(2, 1)
"""


def write(folder, module, source=SOURCE):
    """The module, and the raw data that its reader does not need."""
    (folder / f"{module}.py").write_text(source)
    (folder / "raw").touch()


def values(module, **train):
    """The values of params.yaml for the module, with these of `train`."""
    rows = {"raw": "raw", "reader": f"{module}:read", "inputs": ["x"], "label": "y", "task": "regression"}
    return {
        "name": "x",
        "code": {"watch": f"{module}.py"},
        "data": {**rows, "validation": 0.2, "test": 0.2},
        "model": {"factory": f"{module}:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]},
        "train": train,
        "package": {"repository": "x"},
    }
