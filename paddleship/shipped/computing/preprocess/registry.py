"""All registered preprocess kinds: from the files of this package, and from entry points of installed packages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.discovery import Registered
from paddleship.shipped.computing.preprocess.registration import Kind

GROUP = "paddleship.preprocess"
_NAME = "KIND"  # name of the registration in each file of this package
_WHAT = "preprocess kinds"


@cache
def ours() -> Mapping[str, Registered[Kind]]:
    """The kinds of this package, by name."""
    return discovery.by_name(discovery.in_package(__name__.rpartition(".")[0], Path(__file__).parent, _NAME, Kind), _WHAT)


@cache
def found() -> Mapping[str, Registered[Kind]]:
    """All kinds by name. Raises RegistrationError."""
    return discovery.by_name([*ours().values(), *discovery.from_entry_points(GROUP, Kind)], _WHAT)


@cache
def default() -> Kind:
    """The kind of inputs for which the params name none."""
    return next(one.registration for one in ours().values() if one.registration.default)


def registered(name: str) -> Registered[Kind]:
    """The kind of this name, with its origin. Raises CandidateError if none is registered."""
    if one := ours().get(name) or found().get(name):  # entry points are not loaded without need
        return one
    raise CandidateError(f"{unknown(name)}: install its package, or run `paddleship run --again prepare`")


def get(name: str) -> Kind:
    """The kind of this name. Raises CandidateError if none is registered."""
    return registered(name).registration


@cache
def distributions() -> tuple[str, ...]:
    """The distributions whose versions affect what a kind computes, including those of users' packages."""
    names: list[str] = []
    for one in found().values():
        names += [pin.partition("==")[0] for pin in one.registration.requirements]
        names += [one.entry_point.dist.name] if one.entry_point and one.entry_point.dist else []
    return tuple(dict.fromkeys(names))


def unknown(name: object) -> str:
    """What to say of a name that no kind has."""
    near = difflib.get_close_matches(str(name), found(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no preprocess kind {name!r} ({hint}registered kinds: {', '.join(found())})"
