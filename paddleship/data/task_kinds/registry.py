"""All task kinds: from the files of this package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paddleship.data.task_kinds.registration import TaskKind
from paddleship.errors import ParamsError
from paddleship.shipped.computing import discovery

_NAME = "TASK_KIND"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def kinds() -> Mapping[str, TaskKind]:
    """All task kinds by name."""
    known = discovery.by_name(discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, TaskKind), "task kinds")
    return {name: one.registration for name, one in known.items()}


def get(name: str) -> TaskKind:
    """The task kind of this name. Raises ParamsError."""
    if name not in kinds():
        raise ParamsError(f"there is no task kind {name!r}: set data.task to one of {', '.join(kinds())}")
    return kinds()[name]
