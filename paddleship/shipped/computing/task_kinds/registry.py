"""The decisions of all task kinds: from the files of this package, and from entry points of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.discovery import Registered
from paddleship.shipped.computing.task_kinds.registration import Decision, functions_of

GROUP = "paddleship.decisions"
_NAME = "DECISION"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]
_WHAT = "task kinds"


@cache
def ours() -> Mapping[str, Registered[Decision]]:
    """The decisions of this package, by the name of the task."""
    return discovery.by_name(discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, Decision), _WHAT)


@cache
def found() -> Mapping[str, Registered[Decision]]:
    """All decisions by the name of the task. Raises RegistrationError."""
    return discovery.by_name([*ours().values(), *discovery.from_entry_points(GROUP, Decision)], _WHAT)


def registered(name: str) -> Registered[Decision]:
    """The decision of the task of this name, with its origin. Raises CandidateError."""
    task, _ = functions_of(name)
    if one := ours().get(task) or found().get(task):  # entry points are not loaded without need
        return one
    raise CandidateError(
        f"there is no task kind {name!r} (registered are {', '.join(found())}): install its package, or correct data.task and make the "
        "candidate again"
    )


def get(name: str) -> Decision:
    """The decision of the task of this name. Raises CandidateError."""
    return registered(name).registration
