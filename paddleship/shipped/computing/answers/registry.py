"""The kinds of answers: from the files of this package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.answers.registration import AnswerKind

_NAME = "ANSWER"  # name of the registration in each file of this package
_PACKAGE = __name__.rpartition(".")[0]


@cache
def kinds() -> Mapping[str, AnswerKind]:
    """All kinds by name."""
    found = discovery.by_name(discovery.in_package(_PACKAGE, Path(__file__).parent, _NAME, AnswerKind), "kinds of answers")
    return {name: one.registration for name, one in found.items()}


def of(settings: Mapping[str, Any]) -> AnswerKind:
    """The kind that these params are for. Raises CandidateError."""
    if one := next((kind for name, kind in kinds().items() if name in settings), None):
        return one
    raise CandidateError(f"there is no answer {dict(settings)!r} (known are {', '.join(kinds())}): make the candidate with this paddleship")
