"""paddleship: an eager PaddlePaddle model, proven and shipped.

What may be imported from here, and stays:

- `load_params(path)`: the params of a checkout, checked; `Params`, and `Model` with its `Input`s, are their classes.
- `examine(model, work=folder)`: what `paddleship doctor` finds out about a model, as an `Examination`; see docs/doctor.md.
- `load(folder)`: a candidate in its runtime, whose `run` takes and gives arrays by name; `Candidate.load(folder)` describes it.
- `differences(answer, reference)`: how far two arrays are apart, as `OutputErrors`; NaN and infinities count.
- `PaddleshipError`: what all of them raise, and its subclasses in `paddleship.errors`.

Everything else in the package is for the pipeline itself and may change. Nothing is loaded before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddleship.config.params import Input, Model, Params
    from paddleship.config.params import load as load_params
    from paddleship.doctor.examination import Examination
    from paddleship.doctor.examining import examine
    from paddleship.errors import PaddleshipError
    from paddleship.numerics.differences import differences
    from paddleship.shipped.common.candidate import Candidate
    from paddleship.shipped.runtimes import load

__version__ = "0.1.0"

__all__ = ["Candidate", "Examination", "Input", "Model", "PaddleshipError", "Params", "differences", "examine", "load", "load_params"]

_PLACES = {  # the module of each, and its name there
    "Candidate": ("shipped.common.candidate", "Candidate"),
    "Examination": ("doctor.examination", "Examination"),
    "Input": ("config.params", "Input"),
    "Model": ("config.params", "Model"),
    "PaddleshipError": ("errors", "PaddleshipError"),
    "Params": ("config.params", "Params"),
    "differences": ("numerics.differences", "differences"),
    "examine": ("doctor.examining", "examine"),
    "load": ("shipped.runtimes", "load"),
    "load_params": ("config.params", "load"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'paddleship' has no attribute {name!r} (it offers {', '.join(__all__)})")
    module, theirs = _PLACES[name]
    return getattr(import_module(f"paddleship.{module}"), theirs)
