"""Which registered candidates are made: those that `optimize.candidates` names, or all that are installed and useful on this machine."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from paddleship.errors import ParamsError
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Kind

PROGRAM = "paddle"  # the exported program, unchanged: the first candidate, and the source of the others
EAGER = "paddle-eager"  # no static graph: the model's Python code
_CONVERTER = "paddle2onnx"  # which every candidate needs that is made from ONNX


def kinds() -> Mapping[str, Kind]:
    """All candidates by name, those of the exported program first."""
    return registry.kinds()


def require_known(names: Sequence[str] | None) -> None:
    """Raise ParamsError for a candidate that no runtime registers."""
    for name in names or ():
        if name not in kinds():
            near = difflib.get_close_matches(name, kinds(), n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ParamsError(
                f"optimize.candidates names {name!r}, which no runtime registers: {hint}registered candidates: {', '.join(kinds())}"
            )


def chosen(names: Sequence[str] | None) -> list[str]:
    """The names of the candidates to make: those named, or all that are tried by default. Raises ParamsError."""
    if names is None:
        return [name for name in kinds() if not _objection(name)]
    require_known(names)
    for name in names:
        if lacking := missing(name):
            raise ParamsError(
                f"optimize.candidates names {name!r} and {lacking} is not installed: {_install(name, lacking)}, or leave {name} out"
            )
    return list(dict.fromkeys(names))


def left_out(names: Sequence[str]) -> dict[str, str]:
    """The reason why each other candidate is not tried, by name."""
    return {name: _objection(name) or "not named in optimize.candidates" for name in kinds() if name not in names}


def missing(name: str) -> str:
    """The first package that the candidate needs and that is not installed; empty if all are installed."""
    kind = kinds()[name]
    converter = (_CONVERTER,) if registry.get(kind.runtime).registration.source == "onnx" else ()
    return next((package for package in (*kind.packages, *converter) if not installed(package)), "")


def installed(package: str) -> bool:
    """Whether a package is installed, without importing it."""
    return find_spec(package) is not None


def _objection(name: str) -> str:
    """Why a candidate is not tried by default; empty if it is."""
    if lacking := missing(name):
        return f"{lacking} is not installed"
    return kinds()[name].unavailable() or kinds()[name].not_by_default


def _install(name: str, lacking: str) -> str:
    """How to install the package that a candidate lacks."""
    if lacking == _CONVERTER:
        return "it has wheels for Python 3.11 and 3.12 (`make setup PYTHON=python3.12`)"
    extra = kinds()[name].extra
    return f"install the extra {extra!r} (`pip install -e '.[{extra}]'`)" if extra else f"`pip install {lacking}`"
