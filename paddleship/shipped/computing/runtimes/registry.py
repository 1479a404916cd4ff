"""All registered runtimes: from the files of this package, and from entry points of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

from paddleship.errors import CandidateError, RegistrationError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.discovery import Registered
from paddleship.shipped.computing.runtimes.registration import Kind, Registration, Source

GROUP = "paddleship.runtimes"
_NAME = "RUNTIME"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def found() -> Mapping[str, Registered[Registration]]:
    """All runtimes by name, those of the exported program first. Raises RegistrationError."""
    everything: dict[str, Registered[Registration]] = {}
    owners: dict[str, Registered[Registration]] = {}
    for one in sorted([*_ours(), *discovery.from_entry_points(GROUP, Registration)], key=_order):
        name = one.registration.name
        if name in everything:
            raise RegistrationError(f"two runtimes are called {name!r}, in {everything[name]} and in {one}: rename one or uninstall it")
        everything[name] = one
        for candidate in one.registration.candidates:
            if candidate in owners:
                raise RegistrationError(f"{owners[candidate]} and {one} both have a candidate {candidate!r}: rename one or uninstall it")
            owners[candidate] = one
    return everything


def get(name: str) -> Registered[Registration]:
    """The runtime of this name. Raises CandidateError if none is registered."""
    if name not in found():
        raise CandidateError(f"there is no runtime {name!r} (registered are {', '.join(found())}): install its package, or convert again")
    return found()[name]


def of(candidate: str) -> Registration:
    """The runtime of the candidate of this name, which must be registered."""
    return found()[kinds()[candidate].runtime].registration


def kind_of(candidate: Candidate) -> Kind:
    """The kind of a candidate, by name; a default one if its runtime does not register the name, as for a part of a program."""
    kind = kinds().get(candidate.name)
    return kind if kind and kind.runtime == candidate.runtime else Kind(candidate.precision, runtime=candidate.runtime)


@cache
def kinds() -> Mapping[str, Kind]:
    """The kinds of all candidates, by name."""
    return {
        name: replace(kind, runtime=one.registration.name) for one in found().values() for name, kind in one.registration.candidates.items()
    }


@cache
def distributions() -> tuple[str, ...]:
    """All distributions whose versions affect answers or latency of a candidate, including those of users' packages."""
    names: list[str] = []
    for one in found().values():
        names += [*one.registration.distributions, *(pin.partition("==")[0] for pin in one.registration.pins)]
        names += [one.entry_point.dist.name] if one.entry_point and one.entry_point.dist else []
    return tuple(dict.fromkeys(names))


def _order(one: Registered[Registration]) -> tuple[int, str]:
    return get_args(Source).index(one.registration.source), one.registration.name


def _ours() -> list[Registered[Registration]]:
    return discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, Registration)
