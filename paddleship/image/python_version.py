"""The Python of an image: its minor version must be the one that the candidate was proven with, which its wheels are built for."""

from __future__ import annotations

from paddleship.errors import CandidateError


def base_image(python: str) -> str:
    """The official image of a version of Python, such as `python:3.11-slim` for 3.11.2."""
    return f"python:{_minor(python)}-slim"


def require_proven(what: str, has: str, proven: str) -> None:
    """Raise CandidateError if `what` has another minor version of Python than `verify` ran with."""
    if _minor(has) != _minor(proven):
        raise CandidateError(
            f"{what} has Python {has}, but verify ran with {proven}, which is what is proven: set package.base_image to an image with "
            f"Python {_minor(proven)}, or run `paddleship run` with Python {_minor(has)} (make setup PYTHON=python{_minor(has)})"
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
