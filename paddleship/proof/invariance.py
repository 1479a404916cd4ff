"""Whether answers stay the same when they are asked again, by concurrent callers, or in another batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from paddleship.config.sections.verify import Verify
from paddleship.numerics import differences
from paddleship.numerics.differences import Array, wide
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.spec import Arrays

_FEWEST = 8  # rows that must have been seen in several batches
_AGAIN = 8  # cases that are asked a second time, and by concurrent callers
CHEAP_S = 5.0  # time limit for any model under test; for a slow one, the time of its first answers


def sample(evidence: Evidence) -> list[int]:
    """A few cases of different shapes, from the smallest to the largest, and another one of the largest shape if there is one."""
    by_shape: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for case_index in range(len(evidence.cases)):
        by_shape.setdefault(_shapes(evidence, case_index), []).append(case_index)
    shapes = sorted(by_shape.values(), key=lambda indices: sum(array.size for array in evidence.cases[indices[0]].inputs.values()))
    spread = np.unique(np.linspace(0, len(shapes) - 1, _AGAIN - 1).round().astype(int))
    return [shapes[index][0] for index in spread] + shapes[-1][1:2]


def affordable(evidence: Evidence, indices: Sequence[int], took: Sequence[float], *, times: int) -> list[int]:
    """The cases, the quickest first, that can be asked `times` more within the time that all first answers `took` (seconds).

    At least two of different shapes, one of them with several rows if there is such a case.
    """
    quickest = sorted(indices, key=lambda index: took[index])
    first = quickest[0]
    others = [index for index in quickest if _shapes(evidence, index) != _shapes(evidence, first)]
    several = [index for index in others if _rows(evidence, index) > 1]
    chosen = [first, *((others if _rows(evidence, first) > 1 else several or others)[:1])]
    left = max(CHEAP_S, sum(took)) / times - sum(took[index] for index in chosen)
    for index in quickest:
        if index not in chosen and took[index] <= left:
            chosen.append(index)
            left -= took[index]
    return [index for index in indices if index in chosen]


def _shapes(evidence: Evidence, index: int) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in evidence.cases[index].inputs.values())


def _rows(evidence: Evidence, index: int) -> int:
    return max((shape[0] for shape in _shapes(evidence, index) if shape), default=1)


def change(evidence: Evidence, indices: Sequence[int], first: Sequence[Arrays], second: Sequence[Arrays]) -> float:
    """The largest difference between two sets of answers, in units of eager's noise; infinite if their names differ."""
    worst = 0.0
    group_of = {index: group for group, members in evidence.groups.items() for index in members}
    for index, one, two in zip(indices, first, second, strict=False):
        for name, array in one.items():
            if name not in two:
                return float("inf")
            if distance := differences.distance(array, two[name]):
                worst = max(worst, distance / evidence.noise[group_of[index]][name].largest)
    return worst


def departure(evidence: Evidence, answers: Sequence[Arrays]) -> float:
    """The largest difference from the reference, in units of eager's noise; 0 if the same kernels compute the same."""
    return change(evidence, range(len(answers)), evidence.reference, answers)


def shared(evidence: Evidence, program: Sequence[Arrays], answers: Sequence[Arrays]) -> float:
    """The share of the program's departure from the reference that other answers repeat: 1 all of it, 0 none.

    The answers are projected on the departure, so that it is found even if it is smaller than their own rounding.
    """
    along = size = 0.0
    for group, indices in evidence.groups.items():
        for name, noise in evidence.noise[group].items():
            for index in indices:
                reference = wide(evidence.reference[index][name])
                pair = [wide(one[index][name]) for one in (program, answers)]
                valid = np.isfinite(reference) & np.isfinite(pair[0]) & np.isfinite(pair[1])
                departs, differs = (np.where(valid, one, 0) - np.where(valid, reference, 0) for one in pair)
                along += float((departs[valid] * differs[valid]).sum()) / noise.largest**2
                size += float((departs[valid] ** 2).sum()) / noise.largest**2
    return along / size if size else 0.0


def batch_variance(evidence: Evidence, answers: Sequence[Arrays], *, noise_limit: float) -> float:
    """How much a row's answer changes with its batch, over the outputs whose truth does not change."""
    own = batch_changes(evidence, evidence.truth)
    return max((change for name, change in batch_changes(evidence, answers).items() if own[name] <= noise_limit), default=0.0)


def rows_are_independent(findings: Iterable[Finding], settings: Verify, *, rows: int) -> bool:
    """Whether no answer to one of the real rows changed with its batch, judged by limits that are no looser than the defaults."""
    usual = Verify()
    strict = settings.noise_limit <= usual.noise_limit and settings.invariance_limit <= usual.invariance_limit
    return strict and rows >= _FEWEST and not any(finding.kind in ("batch-dependent", "random-forward") for finding in findings)


def batch_changes(evidence: Evidence, answers: Sequence[Arrays]) -> dict[str, float]:
    """For each output, the largest difference between answers to the same row in different batches, in units of eager's noise.

    Answers of different shape are not compared; but those that decide each position are, without the padding of their batch.
    """
    changes, lengths = dict.fromkeys(answers[0], 0.0), evidence.lengths
    first_output = next(iter(answers[0]))
    seen: dict[tuple[str, int], Array] = {}
    for case, answer in zip(evidence.cases, answers, strict=True):
        for name, array in answer.items():
            if not array.ndim or len(array) != len(case.rows):
                continue
            for row, values in zip(case.rows, wide(array), strict=True):
                own = values[: lengths[row]] if name == first_output and row in lengths else values
                first = seen.setdefault((name, row), own)
                if first.shape == own.shape:
                    distances = differences.elementwise_distance(first, own)
                    changes[name] = max(
                        changes[name], float(distances[np.isfinite(distances)].max(initial=0)) / evidence.noise[ROWS][name].largest
                    )
    return changes
