"""Replace functions of modules and methods of built-in types in this process, for good, without replacing a type."""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Replaced:
    """Calls `answer` in place of the function `real`, and equals it. As an attribute of a class it is no method, like a built-in."""

    def __init__(self, real: Callable[..., Any], answer: Callable[..., Any]) -> None:
        functools.update_wrapper(self, real)
        self._real, self._answer = real, answer

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._answer(*arguments, **options)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._real

    def __hash__(self) -> int:
        return hash(self._real)


def replace(module: ModuleType, name: str, answer: Callable[..., Any]) -> None:
    """Replace a function; `answer` gets the real function, then the arguments."""
    real = getattr(module, name)
    setattr(module, name, Replaced(real, functools.partial(answer, real)))


def set_in_type(kind: type, **methods: Any) -> None:
    """Set methods of a type that is written in C, for which `setattr` is forbidden."""
    (members,) = gc.get_referents(kind.__dict__)
    members.update(methods)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
