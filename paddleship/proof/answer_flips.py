"""What a client gets beside the outputs (params.answer): whether a candidate's answers to the rows are eager's.

Numbers in an answer follow from the outputs, whose errors are judged as such. The rest of it is decided: names, how many there are and
in which order, whole numbers. A row of which that differs is a flip, as a class that differs is: reported for float32, whose outputs are
within eager's noise, and limited for a lower precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paddleship.config.sections.verify import Verify
from paddleship.numerics import differences
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.answers.registration import Answering
from paddleship.shipped.computing.spec import Arrays

_CLOSE = 1e-5  # relative difference between two numbers that were computed from the same outputs by two processes


@dataclass(frozen=True)
class Answer:
    """The param `answer` as a candidate stores it, and the answers that it asks for."""

    settings: Mapping[str, Any]
    answering: Answering


def decided(answer: Any) -> Any:
    """An answer without its numbers that are not whole."""
    if isinstance(answer, Mapping):
        return {key: decided(part) for key, part in answer.items()}
    if isinstance(answer, list):
        return [decided(part) for part in answer]
    return None if isinstance(answer, float) else answer


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal, but for the rounding of numbers."""
    return decided(one) == decided(other) and bool(np.allclose(_numbers(one), _numbers(other), rtol=_CLOSE, atol=_CLOSE / 100))


def _numbers(answer: Any) -> list[float]:
    if isinstance(answer, Mapping | list):
        parts = answer.values() if isinstance(answer, Mapping) else answer
        return [number for part in parts for number in _numbers(part)]
    return [answer] if isinstance(answer, float) else []


def by_row(evidence: Evidence, answers: Sequence[Arrays], answering: Answering) -> dict[int, Any]:
    """What is decided for each row, from the largest batch that it is in."""
    found: dict[int, Any] = {}
    for case, outputs in sorted(zip(evidence.cases, answers, strict=True), key=lambda pair: -len(pair[0].rows)):
        if set(case.rows) - found.keys():
            found = dict(zip(case.rows, map(decided, answering.rows(outputs)), strict=True)) | found
    return found


def hold(
    judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], answering: Answering, *, limits: Verify, precision: str
) -> Judgement:
    """A judgement with the share of rows whose answer is not eager's, and for a lower precision the check of it."""
    if not judgement.metrics:
        return judgement
    before, after = (by_row(evidence, one, answering) for one in (evidence.reference, answers))
    flips = sum(after[row] != answer for row, answer in before.items())
    low, high = differences.proportion_interval(flips, len(before))
    rates = {"answer_flip_rate": flips / len(before), "answer_flip_rate_low": low, "answer_flip_rate_high": high}
    checks = [] if precision == "float32" else [_check(high, limits)]
    return replace(judgement, metrics=judgement.metrics | rates, checks=[*judgement.checks, *checks])


def _check(high: float, limits: Verify) -> Check:
    advice = "what a client gets changes: ship a more precise candidate, or raise verify.samples where the interval is wide"
    return Check.at_most("answer_flip_rate_high", high, limits.max_flip_rate, advice=advice)


def findings(evidence: Evidence, settings: Mapping[str, Any], answering: Answering) -> list[Finding]:
    """Whether eager's own answers can be held against anything."""
    first, again = (by_row(evidence, evidence.reference, answering) for _ in range(2))
    if first != again:
        message = "the function of answer.own returns different answers for the same outputs"
        return [Finding("random-answer", "error", message, "let it depend on the outputs alone, without random numbers or state")]
    within = all(((one >= 0) & (one <= 1)).all() for answer in evidence.reference for one in [answer[next(iter(answer))]])
    if settings.get("scores") == "logits" and within:
        message = "all values of the first output are between 0 and 1, and answer.scores says logits: probabilities are computed from them"
        return [
            Finding("scores-form", "warning", message, "set answer.scores to probabilities if the model ends with a softmax or a sigmoid")
        ]
    if settings.get("scores") == "probabilities" and not within:
        message = "the first output has values that are not between 0 and 1, and answer.scores says probabilities"
        return [Finding("scores-form", "error", message, "set answer.scores to logits")]
    return []
