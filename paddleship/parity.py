"""Whether a candidate answers as right as the eager model does.

`truth` is the eager model in float64, `reference` in float32, `candidate` anything else, all on the same
batches. The error of an answer is max|x - truth| over the largest |truth| of that output, over all batches,
so that an output which is small everywhere is not waved through. `noise_ratio` is the candidate's error over
the reference's: 1 means as far from the truth as eager itself. The reference's error counts as one float32
rounding step at least, since a model of one product may have no error at all.

Where a model cannot run in float64, the reference stands in for the truth and the noise is measured as the
difference between eager answers to a row alone and in a batch, at least NOISE_FLOOR; `rule` says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.runtimes import Arrays
from paddleship.verdict import Check

EPSILON = float(np.finfo(np.float32).eps)
NOISE_FLOOR = 1e-6  # honest float32 networks err by 3e-7 to 4e-6 of their scale

FLOAT64_TRUTH = "eager float64"
MEASURED_NOISE = "eager float32 alone against in a batch"


@dataclass(frozen=True)
class Case:
    """One batch: rows of the test part that are answered together."""

    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Judgement:
    """What was measured on one candidate and what was decided."""

    metrics: dict[str, float]
    checks: list[Check] = field(repr=False)
    worst_case: str

    def __bool__(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)


@dataclass(frozen=True)
class Evidence:
    """Truth and reference of every case, and how noisy the reference is per output.

    `noise` maps each output to the reference's error; `classifier` says that the first output is a decision.
    """

    cases: tuple[Case, ...]
    truth: list[Arrays]
    reference: list[Arrays]
    noise: dict[str, float]
    rule: str
    classifier: bool

    def save(self, folder: Path) -> None:
        meta = {
            "rule": self.rule,
            "classifier": self.classifier,
            "noise": self.noise,
            "cases": [{"name": case.name, "rows": case.rows} for case in self.cases],
        }
        (folder / "cases.json").write_text(json.dumps(meta, indent=1) + "\n")
        for name, answers in (("truth", self.truth), ("reference", self.reference)):
            flat: dict[str, Any] = {f"{index}/{key}": array for index, answer in enumerate(answers) for key, array in answer.items()}
            np.savez_compressed(folder / f"{name}.npz", **flat)

    @classmethod
    def load(cls, folder: Path) -> Evidence:
        try:
            meta = json.loads((folder / "cases.json").read_text())
            answers = {name: _load_answers(folder / f"{name}.npz", len(meta["cases"])) for name in ("truth", "reference")}
        except OSError as error:
            raise CandidateError(f"parity evidence in {str(folder)!r} cannot be read ({error}): run `dvc repro verify`") from None
        cases = tuple(Case(item["name"], tuple(item["rows"])) for item in meta["cases"])
        return cls(cases, answers["truth"], answers["reference"], meta["noise"], meta["rule"], meta["classifier"])


def make_cases(sizes: Sequence[int], *, max_batch: int) -> tuple[Case, ...]:
    """Batches over rows 0 … len(sizes)-1 whose element counts are `sizes`.

    Alone: the first, shortest, middle and longest row. Together: 2, 7 (a prime), the shortest with the
    longest, and then all rows in batches of `max_batch`.
    """
    order = np.argsort(sizes, kind="stable").tolist()
    alone = {
        "first row alone": 0,
        "shortest row alone": order[0],
        "middle row alone": order[len(order) // 2],
        "longest row alone": order[-1],
    }
    cases = [Case(name, (row,)) for name, row in alone.items()]
    for count in (2, 7):
        if len(order) >= count:
            cases.append(Case(f"batch of {count}", tuple(range(count))))
    if len(order) > 1:
        cases.append(Case("shortest with longest", (order[0], order[-1])))
    for start in range(0, len(order), max_batch):
        rows = tuple(range(start, min(start + max_batch, len(order))))
        cases.append(Case(f"rows {rows[0]} to {rows[-1]}", rows))
    return tuple(cases)


def gather(
    cases: Sequence[Case],
    reference: list[Arrays],
    truth: list[Arrays] | None,
    *,
    classifier: bool,
    alone: Mapping[int, Arrays] | None = None,
) -> Evidence:
    """Put the evidence together; without a float64 `truth`, `alone` holds eager answers of single rows to measure noise by."""
    if not cases:
        raise CandidateError("there are no rows to compare: verify.samples must be 1 or more")
    if truth is not None:
        noise = {name: max(_error(reference, truth, name), EPSILON) for name in reference[0]}
        return Evidence(tuple(cases), truth, reference, noise, FLOAT64_TRUTH, classifier)
    noise = {name: max(_batch_noise(cases, reference, alone or {}, name), NOISE_FLOOR) for name in reference[0]}
    return Evidence(tuple(cases), reference, reference, noise, MEASURED_NOISE, classifier)


def judge(evidence: Evidence, answers: Sequence[Arrays], *, noise_limit: float) -> Judgement:
    """Judge one candidate's answers to all cases. Another form of answer (names, dtype, shape) or a NaN of its own always fails."""
    if len(answers) != len(evidence.cases) or not answers:
        raise CandidateError(f"{len(answers)} answers for {len(evidence.cases)} cases: nothing can be decided")
    flaws = [
        flaw
        for case, answer, expected in zip(evidence.cases, answers, evidence.reference, strict=True)
        for flaw in _flaws(case, answer, expected)
    ]
    if flaws:
        return Judgement(
            {}, [Check(name="answers", measured=flaws[0], limit="names, dtypes, shapes and finite values of eager", passed=False)], flaws[0]
        )
    ratios, metrics = {}, {"max_abs_diff": 0.0, "max_rel_diff": 0.0}
    for name in evidence.reference[0]:
        ratios[name] = _error(answers, evidence.truth, name) / evidence.noise[name]
        for answer, reference in zip(answers, evidence.reference, strict=True):
            difference = np.abs(_wide(answer[name]) - _wide(reference[name]))
            metrics["max_abs_diff"] = max(metrics["max_abs_diff"], float(difference.max(initial=0)))
        metrics["max_rel_diff"] = max(metrics["max_rel_diff"], _error(answers, evidence.reference, name))
    worst = max(ratios, key=lambda name: ratios[name])
    metrics = {"noise_ratio": ratios[worst], "reference_error": evidence.noise[worst], **metrics}
    if evidence.classifier:
        metrics["flip_rate"] = flip_rate(evidence, answers)
    advice = "the candidate is further from the truth than eager's own rounding explains: do not ship it; see the worst case in the report"
    return Judgement(
        metrics, [Check.at_most("noise_ratio", ratios[worst], noise_limit, advice=advice)], _worst_case(evidence, answers, worst)
    )


def flip_rate(evidence: Evidence, answers: Sequence[Arrays]) -> float:
    """Share of all decisions (argmax of the first output) that differ from the eager model's."""
    name = next(iter(evidence.reference[0]))
    pairs = [(answer[name].argmax(-1), reference[name].argmax(-1)) for answer, reference in zip(answers, evidence.reference, strict=True)]
    return float(np.concatenate([np.ravel(mine != theirs) for mine, theirs in pairs]).mean())


def _flaws(case: Case, answer: Arrays, expected: Arrays) -> list[str]:
    """What makes an answer incomparable with the reference's, in words."""
    if list(answer) != list(expected):
        return [f"{case.name}: outputs {list(answer)}, eager has {list(expected)}"]
    found = []
    for name, array in answer.items():
        wanted = expected[name]
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            found.append(f"{case.name}: {name} is {array.dtype}{list(array.shape)}, eager's is {wanted.dtype}{list(wanted.shape)}")
        elif array.dtype.kind == "f" and (strange := int((~np.isfinite(array) & np.isfinite(wanted)).sum())):
            found.append(f"{case.name}: {name} has {strange} NaN or infinite values where eager has none")
    return found


def _error(answers: Sequence[Arrays], truth: Sequence[Arrays], name: str) -> float:
    """max|x - truth| over max|truth|, where the truth is finite; 0 over nothing."""
    largest = distance = 0.0
    for answer, true in zip(answers, truth, strict=True):
        valid = np.isfinite(_wide(true[name]))
        right = _wide(true[name])[valid]
        largest = max(largest, float(np.abs(right).max(initial=0)))
        distance = max(distance, float(np.abs(_wide(answer[name])[valid] - right).max(initial=0)))
    if distance == 0:
        return 0.0
    return distance / largest if largest else float("inf")


def _worst_case(evidence: Evidence, answers: Sequence[Arrays], name: str) -> str:
    distances = [
        float(np.nan_to_num(np.abs(_wide(answer[name]) - _wide(true[name]))).max(initial=0))
        for answer, true in zip(answers, evidence.truth, strict=True)
    ]
    return f"{name}, {evidence.cases[int(np.argmax(distances))].name}"


def _batch_noise(cases: Sequence[Case], reference: Sequence[Arrays], alone: Mapping[int, Arrays], name: str) -> float:
    """The largest relative difference between a row answered alone and in a batch, where both have the same shape."""
    worst = 0.0
    for case, answer in zip(cases, reference, strict=True):
        for place, row in enumerate(case.rows):
            single = alone.get(row, {}).get(name)
            if (
                single is not None
                and answer[name].ndim
                and len(answer[name]) == len(case.rows)
                and single[0].shape == answer[name][place].shape
            ):
                worst = max(worst, _error([{name: answer[name][place]}], [{name: single[0]}], name))
    return worst


def _load_answers(path: Path, count: int) -> list[Arrays]:
    answers: list[Arrays] = [{} for _ in range(count)]
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            index, _, name = key.partition("/")
            answers[int(index)][name] = stored[key]
    return answers


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float64)
