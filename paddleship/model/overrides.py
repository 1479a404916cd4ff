"""Check the methods of `paddle.nn.Layer` that a user's class may override: they have to list the model's tensors and layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from paddleship.errors import ModelError
from paddleship.shipped.computing.references import explain

_LISTED: dict[str, Callable[[Any], bool]] = {
    "state_dict": lambda result: all(hasattr(tensor, "numpy") for tensor in result.values()),
    "named_parameters": lambda result: all(hasattr(tensor, "numpy") for _, tensor in result),
    "named_buffers": lambda result: all(tensor is None or hasattr(tensor, "numpy") for _, tensor in result),
    "named_sublayers": lambda result: all(hasattr(part, "forward") for _, part in result),
}


def check(layer: Any) -> None:
    """Raise ModelError if one of these methods fails, or lists something other than tensors or layers by name."""
    for name, lists in _LISTED.items():
        method = getattr(layer, name)
        try:
            reason = "" if lists(method()) else "it lists something else"
        except Exception as failure:
            reason = explain(failure)
        if reason:
            what = f"{type(layer).__name__}.{name}() does not list what paddle.nn.Layer.{name}() lists ({reason})"
            raise ModelError(f"{what}: return what super().{name}() returns, or do not override it", where=_line(method))


def _line(method: Any) -> str | None:
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
