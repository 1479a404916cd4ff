"""Load the answers of a candidate."""

from __future__ import annotations

from pathlib import Path

from paddleship.shipped.computing.answers import registry
from paddleship.shipped.computing.answers.registration import Answering
from paddleship.shipped.computing.candidate import Candidate

NAME = "answer"  # of the output


def load(folder: Path, candidate: Candidate) -> Answering | None:
    """The answers of the candidate in `folder`; None if a server adds no more than the label. Raises CandidateError."""
    if not candidate.answer:
        return None
    kind = registry.of(candidate.answer)
    return kind.make(candidate.answer, candidate, folder)
