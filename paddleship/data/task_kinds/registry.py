"""All task kinds: from the files of this package."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from paddleship.data.task_kinds.registration import TaskKind
from paddleship.errors import ParamsError

_NAME = "TASK_KIND"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def kinds() -> Mapping[str, TaskKind]:
    """All task kinds by name."""
    modules = [import_module(f"{_PACKAGE}.{info.name}") for info in pkgutil.iter_modules([str(Path(__file__).parent)])]
    known = [value for module in modules if isinstance(value := getattr(module, _NAME, None), TaskKind)]
    return {kind.name: kind for kind in sorted(known, key=lambda kind: kind.name)}


def get(name: str) -> TaskKind:
    """The task kind of this name. Raises ParamsError."""
    if name not in kinds():
        raise ParamsError(f"there is no task kind {name!r}: set data.task to one of {', '.join(kinds())}")
    return kinds()[name]
