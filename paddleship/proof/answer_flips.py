"""What a client gets beside the outputs (params.answer): whether a candidate's answers to the rows are eager's.

Numbers in an answer follow from the outputs, whose errors are judged as such. The rest of it is decided: names, how many there are and
in which order, a number or none, and numbers that are whole in all of eager's answers, such as counts and rounded values. A row of which
that differs is a flip, as a class that differs is: reported for float32, whose outputs are within eager's noise, and limited for a lower
precision.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paddleship.config.sections.verify import Verify
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.numerics import differences
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.answers.registration import Answering
from paddleship.shipped.computing.spec import Arrays

_CLOSE = 1e-5  # relative difference between two numbers that were computed from the same outputs by two processes
_ALL_WHOLE = 2.0**23  # from here on, every float32 is whole


@dataclass(frozen=True)
class Answer:
    """The param `answer` as a candidate stores it, and the answers that it asks for."""

    settings: Mapping[str, Any]
    answering: Answering


Path = tuple[str | int, ...]  # the keys and indices that lead to a part of an answer


def measured(answers: Iterable[Any]) -> frozenset[Path]:
    """The paths of floats that are not whole in all these answers. One so large that every float32 is whole counts as not whole."""
    found = (pair for answer in answers for pair in _floats(answer, ()))
    return frozenset(path for path, number in found if not (number.is_integer() and abs(number) < _ALL_WHOLE))


def _floats(answer: Any, path: Path) -> Iterator[tuple[Path, float]]:
    parts = answer.items() if isinstance(answer, Mapping) else enumerate(answer) if isinstance(answer, list) else ()
    for key, part in parts:
        yield from _floats(part, (*path, key))
    if isinstance(answer, float):
        yield path, answer


def decided(answer: Any, measured: Collection[Path], path: Path = ()) -> Any:
    """An answer without the floats of `measured` paths. Other floats as the nearest whole number; each value with its kind."""
    if isinstance(answer, Mapping):
        return {key: decided(part, measured, (*path, key)) for key, part in answer.items()}
    if isinstance(answer, list):
        return [decided(part, measured, (*path, index)) for index, part in enumerate(answer)]
    if isinstance(answer, float):
        return ("number", None if path in measured else float(np.rint(answer)))
    return ("number" if type(answer) is int else type(answer), answer)


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal, but for the rounding of numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE / 100)
    return type(one) is type(other) and bool(one == other)


def by_row(evidence: Evidence, answers: Sequence[Arrays], answering: Answering) -> dict[int, Any]:
    """The answer for each row, from the largest batch that it is in."""
    found: dict[int, Any] = {}
    for case, outputs in sorted(zip(evidence.cases, answers, strict=True), key=lambda pair: -len(pair[0].rows)):
        if set(case.rows) - found.keys():
            found = dict(zip(case.rows, answering.rows(outputs), strict=True)) | found
    return found


def hold(
    judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], answering: Answering, *, limits: Verify, precision: str
) -> Judgement:
    """A judgement with the share of rows whose answer is not eager's, and for a lower precision the check of it."""
    if not judgement.metrics:
        return judgement
    before, after = (by_row(evidence, one, answering) for one in (evidence.reference, answers))
    numbers = measured(before.values())
    flips = sum(decided(after[row], numbers) != decided(answer, numbers) for row, answer in before.items())
    low, high = differences.proportion_interval(flips, len(before))
    rates = {"answer_flip_rate": flips / len(before), "answer_flip_rate_low": low, "answer_flip_rate_high": high}
    checks = [] if precision == "float32" else [_check(high, limits)]
    return replace(judgement, metrics=judgement.metrics | rates, checks=[*judgement.checks, *checks])


def _check(high: float, limits: Verify) -> Check:
    advice = "what a client gets changes: ship a more precise candidate, or raise verify.samples where the interval is wide"
    return Check.at_most("answer_flip_rate_high", high, limits.max_flip_rate, advice=advice)


def findings(evidence: Evidence, settings: Mapping[str, Any], answering: Answering) -> list[Finding]:
    """Whether eager's own answers can be held against anything."""
    first, again = (json.dumps(by_row(evidence, evidence.reference, answering)) for _ in range(2))
    if first != again:
        message = "the function of answer.own returns different answers for the same outputs"
        return [Finding("random-answer", "error", message, "let it depend on the outputs alone, without random numbers or state")]
    if evidence.task and task_kinds.get(evidence.task).decision.reads:
        return []  # the task itself reads one of the forms, and params hold the answer to it
    within = all(((one >= 0) & (one <= 1)).all() for one in evidence.first_outputs())
    if settings.get("scores") == "logits" and within:
        message = "all values of the first output are between 0 and 1, and answer.scores says logits: probabilities are computed from them"
        return [
            Finding("scores-form", "warning", message, "set answer.scores to probabilities if the model ends with a softmax or a sigmoid")
        ]
    if settings.get("scores") == "probabilities" and not within:
        message = "the first output has values that are not between 0 and 1, and answer.scores says probabilities"
        return [Finding("scores-form", "error", message, "set answer.scores to logits")]
    return []
