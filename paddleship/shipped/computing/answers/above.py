"""The labels whose probability is above a threshold, one for all or one for each, with their probabilities."""

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

_UNNAMED = 0.5  # the threshold of a label that the params do not name


def _make(settings: Mapping[str, Any], candidate: Candidate, _folder: Path) -> Answering:
    names, first = probabilities.classes(candidate, "above"), candidate.outputs[0].name
    thresholds, logits = _thresholds(settings["above"], names), probabilities.are_logits(settings)
    cutoffs = map(probabilities.cutoff, thresholds)
    limits = np.array([probabilities.logit(one) if logits else one for one in cutoffs])

    def decided(scores: Array) -> Array:
        moved: Array = scores - limits  # float64, in which a score is above a threshold if and only if the difference is positive
        return moved

    def rows(outputs: Arrays) -> list[Any]:
        scores = outputs[first]
        shares = probabilities.sigmoid(scores) if logits else scores
        return [
            [{"label": names[index], "probability": probabilities.rounded(share[index])} for index in np.flatnonzero(chosen)]
            for chosen, share in zip(decided(scores) > 0, shares, strict=True)
        ]

    return Answering(rows, decided)


def _thresholds(above: float | Mapping[str, float], names: tuple[str, ...]) -> list[float]:
    if not isinstance(above, Mapping):
        return [above] * len(names)
    if strange := next((name for name in above if name not in names), None):
        raise CandidateError(f"answer.above names {strange!r}, which is not in data.classes ({', '.join(names[:5])} …): correct the name")
    return [above.get(name, _UNNAMED) for name in names]


ANSWER = AnswerKind("above", _make)
