"""The classes with the largest scores and their probabilities, the largest first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.answers import probabilities
from paddleship.shipped.computing.answers.registration import Answering, AnswerKind
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Arrays
from paddleship.shipped.computing.task_kinds.registration import Array


def _make(settings: Mapping[str, Any], candidate: Candidate, _folder: Path) -> Answering:
    names, count, first = probabilities.classes(candidate, "top"), settings["top"], candidate.outputs[0].name
    if count > len(names):
        raise CandidateError(f"answer.top is {count}, and there are {len(names)} classes: lower it")

    def rows(outputs: Arrays) -> list[Any]:
        scores = outputs[first]
        shares = probabilities.softmax(scores) if probabilities.are_logits(settings) else scores
        order = _descending(scores)[:, :count]
        return [
            [{"label": names[index], "probability": probabilities.rounded(share[index])} for index in best]
            for best, share in zip(order.tolist(), shares, strict=True)
        ]

    return Answering(rows)


def _descending(scores: Array) -> Array:
    """The classes of each row by their scores, the first of equal ones first. Unsigned numbers and bools cannot be negated."""
    order: Array = scores.shape[-1] - 1 - np.argsort(scores[:, ::-1], axis=-1, kind="stable")[:, ::-1]
    return order


ANSWER = AnswerKind("top", _make)
