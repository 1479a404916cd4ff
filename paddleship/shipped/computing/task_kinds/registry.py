"""The decisions of all task kinds: from the files of this package."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing.task_kinds.registration import Decision

_NAME = "DECISION"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def decisions() -> Mapping[str, Decision]:
    """All decisions by the name of the task."""
    modules = [import_module(f"{_PACKAGE}.{info.name}") for info in pkgutil.iter_modules([str(Path(__file__).parent)])]
    known = [value for module in modules if isinstance(value := getattr(module, _NAME, None), Decision)]
    return {decision.name: decision for decision in sorted(known, key=lambda decision: decision.name)}


def get(name: str) -> Decision:
    """The decision of the task of this name. Raises CandidateError."""
    if name not in decisions():
        raise CandidateError(f"there is no task kind {name!r} (there are {', '.join(decisions())}): correct data.task, or make it again")
    return decisions()[name]
