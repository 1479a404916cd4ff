"""The distributions in an image: their versions must be those that the candidate was proven with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from paddleship.errors import CandidateError
from paddleship.image import requirements
from paddleship.system import environment


def of(site: Path) -> dict[str, str]:
    """The versions of the distributions in a site-packages folder."""
    return {canonicalize_name(one.metadata["Name"]): one.version for one in distributions(path=[str(site)])}


def pinned(pins: Iterable[str]) -> dict[str, str]:
    """The versions of pins, `name==version`."""
    return {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}


def unproven() -> str:
    """The libraries of the server that are not installed here, so that only the test of the image has run them."""
    server = pinned(requirements.pins(requirements.folder() / requirements.SERVER))
    return ", ".join(sorted(server.keys() - _installed(server).keys()))


def require_proven(image: Mapping[str, str], proven: Mapping[str, str]) -> None:
    """Raise CandidateError if a distribution of the image is not the one of that name that the candidate was proven with.

    That is the version that `verify` ran with, otherwise the one installed here. One that is not installed here is allowed if the server
    needs it.
    """
    known = _plain(_installed(image)) | _plain(proven)
    for name, version in sorted(image.items(), key=lambda one: one[0].removesuffix(environment.GPU_BUILD) not in _plain(proven)):
        expected = known.get(name.removesuffix(environment.GPU_BUILD))
        if expected is None and name not in pinned(requirements.pins(requirements.folder() / requirements.SERVER)):
            raise CandidateError(
                f"the image would have {name} {version}, which is not installed here, so nothing was proven with it: remove it from "
                "docker/requirements, or install it here and run `paddleship run`"
            )
        if expected not in (None, version):
            where = "verify ran with" if name.removesuffix(environment.GPU_BUILD) in _plain(proven) else "this environment has"
            raise CandidateError(
                f"the image would have {name} {version}, but {where} {expected}, which is what is proven: "
                f"pin {name}=={expected} in docker/requirements, or install {name}=={version} here and run `paddleship run`"
            )


def _installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of those that are installed here, also as another build of the same library."""
    plain = [name.removesuffix(environment.GPU_BUILD) for name in names]
    return environment.installed([*plain, *(f"{name}{environment.GPU_BUILD}" for name in plain)])


def _plain(versions: Mapping[str, str]) -> dict[str, str]:
    return {name.removesuffix(environment.GPU_BUILD): version for name, version in versions.items()}
