"""paddleship: an eager PaddlePaddle model, proven and shipped.

The public API, which stays stable:

- `load_params(path)`: read and check a params file. Returns `Params`; `Model` and `Input` are parts of it.
- `examine(model, work=folder)`: run `paddleship doctor` on a model. Returns an `Examination`; see docs/how-to/doctor.md.
- `load(folder)`: load a candidate into its runtime. `run` maps arrays by input name to arrays by output name.
- `Candidate.load(folder)`: read the description of a candidate.
- `differences(answer, reference)`: compare two arrays. Returns `OutputErrors`; NaN and infinity count as differences.
- `PaddleshipError`: base of all errors that these raise; its subclasses are in `paddleship.errors`.

Everything else in the package is internal and may change. Names are imported on first use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddleship.config.loading import load as load_params
    from paddleship.config.params import Params
    from paddleship.config.sections.model import Input, Model
    from paddleship.doctor.examination import Examination
    from paddleship.doctor.examining import examine
    from paddleship.errors import PaddleshipError
    from paddleship.numerics.differences import differences
    from paddleship.shipped.computing.candidate import Candidate
    from paddleship.shipped.computing.runtimes import load

__version__ = "0.1.0"

# The one thing that happens at import: what a process or its children import later reads these before any of our functions runs.
NO_TELEMETRY = {
    "DO_NOT_TRACK": "true",  # Prefect's client, MLflow
    "DVC_NO_ANALYTICS": "true",
    "ITERATIVE_DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
for _name, _value in NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)

__all__ = ["Candidate", "Examination", "Input", "Model", "PaddleshipError", "Params", "differences", "examine", "load", "load_params"]

_SOURCES = {  # public name: (module, name in that module)
    "Candidate": ("shipped.computing.candidate", "Candidate"),
    "Examination": ("doctor.examination", "Examination"),
    "Input": ("config.sections.model", "Input"),
    "Model": ("config.sections.model", "Model"),
    "PaddleshipError": ("errors", "PaddleshipError"),
    "Params": ("config.params", "Params"),
    "differences": ("numerics.differences", "differences"),
    "examine": ("doctor.examining", "examine"),
    "load": ("shipped.computing.runtimes", "load"),
    "load_params": ("config.loading", "load"),
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module 'paddleship' has no attribute {name!r} (it offers {', '.join(__all__)})")
    module, theirs = _SOURCES[name]
    return getattr(import_module(f"paddleship.{module}"), theirs)
