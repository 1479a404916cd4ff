"""The distributions in an image: their versions must be those that the candidate was proven with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from paddleship.errors import CandidateError

_GPU = "-gpu"  # suffix of another build of the same library, which counts as the same


def installed(site: Path) -> dict[str, str]:
    """The versions of the distributions in a site-packages folder."""
    return {canonicalize_name(one.metadata["Name"]): one.version for one in distributions(path=[str(site)])}


def pinned(pins: Iterable[str]) -> dict[str, str]:
    """The versions of pins, `name==version`."""
    return {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}


def require_proven(image: Mapping[str, str], proven: Mapping[str, str]) -> None:
    """Raise CandidateError if a distribution of the image has another version than the one of that name that `verify` ran with."""
    known = {name.removesuffix(_GPU): version for name, version in proven.items()}
    for name, version in image.items():
        expected = known.get(name.removesuffix(_GPU), version)
        if version != expected:
            raise CandidateError(
                f"the image would have {name} {version}, but verify ran with {expected}, which is what is proven: "
                f"pin {name}=={expected} in docker/requirements, or install {name}=={version} here and run `paddleship run`"
            )
