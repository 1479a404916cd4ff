"""The decisions of all task kinds: from the files of this package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.task_kinds.registration import Decision

_NAME = "DECISION"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def decisions() -> Mapping[str, Decision]:
    """All decisions by the name of the task."""
    known = discovery.by_name(discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, Decision), "task kinds")
    return {name: one.registration for name, one in known.items()}


def get(name: str) -> Decision:
    """The decision of the task of this name. Raises CandidateError."""
    if name not in decisions():
        raise CandidateError(f"there is no task kind {name!r} (there are {', '.join(decisions())}): correct data.task, or make it again")
    return decisions()[name]
