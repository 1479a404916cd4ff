"""All task kinds: from the files of this package, and from entry points of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from paddleship.data.task_kinds import function_code
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.errors import ModelError, ParamsError, RegistrationError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.discovery import Registered
from paddleship.shipped.computing.references import resolve
from paddleship.shipped.computing.task_kinds import registry as decisions
from paddleship.shipped.computing.task_kinds.registration import functions_of

GROUP = "paddleship.tasks"
_NAME = "TASK_KIND"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]
_WHAT = "task kinds"


@cache
def ours() -> Mapping[str, Registered[TaskKind]]:
    """The task kinds of this package, by name."""
    return discovery.by_name(discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, TaskKind), _WHAT)


@cache
def found() -> Mapping[str, Registered[TaskKind]]:
    """All task kinds by name. Raises RegistrationError, also for one whose decision is not the one that a server finds."""
    theirs = discovery.from_entry_points(GROUP, TaskKind)
    for one in theirs:
        _require_decision(one)
    return discovery.by_name([*ours().values(), *theirs], _WHAT)


def get(name: str) -> TaskKind:
    """The task kind of this name, with the functions that it names. Raises ParamsError."""
    task, functions = functions_of(name)
    if one := ours().get(task) or found().get(task):  # entry points are not loaded without need
        kind = one.registration
        return kind.bind(functions) if functions and kind.bind else kind
    raise ParamsError(f"there is no task kind {name!r}: set data.task to one of {', '.join(found())}")


def _require_decision(one: Registered[TaskKind]) -> None:
    shipped = decisions.found().get(one.registration.name)
    if shipped is None or shipped.registration is not one.registration.decision:
        raise RegistrationError(
            f"the decision of the task kind {one.registration.name!r} of {one} is not registered for a server: name it in its package's "
            f"entry points of {decisions.GROUP}"
        )


def entry_points() -> Mapping[str, EntryPoint]:
    """The entry points of the task kinds of users' packages and of their decisions, by what they are."""
    every = {f"task {name}": one.entry_point for name, one in found().items()}
    every |= {f"decision {name}": one.entry_point for name, one in decisions.found().items()}
    return {what: point for what, point in every.items() if point is not None}


def score_code(name: str) -> str:
    """What the score of a task kind is besides its name: the user's metric with its code, or the code of the user's kind; else empty.

    Raises ModelError for a metric that cannot be imported.
    """
    if metric := functions_of(name)[1].get("metric"):
        function = resolve(metric, key="data.task.metric", error=ModelError)
        return f"metric {metric} {function_code.code_sha256(metric, function)}"
    return ", ".join(f"{what} {value}" for what, value in sorted(code(name).items()))


def code(name: str) -> dict[str, str]:
    """The hashes of the code of a task kind and its decision, by what they are; empty for a kind of paddleship."""
    if functions_of(name)[0] in ours():
        return {}
    own = (f"task {name}", f"decision {name}")
    return {what: discovery.code_sha256(point) for what, point in entry_points().items() if what in own}
