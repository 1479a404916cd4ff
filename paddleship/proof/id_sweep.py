"""Judge rows that walk through every id, in a lower precision: they have no labels and are unlike training and calibration data.

So only large errors are refused. Over one walk, each float output must reproduce LEAST_WALKED of its variance. The error of a row
that stands out (MOST_TIMES that of half of the rows) must not exceed the spread of the output over the walk. If rows of an embedding
were moved, one row or many rows get the answer of another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array, wide
from paddleship.proof.evidence import Evidence
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Arrays

PRECISIONS = frozenset({"int8", "bfloat16", "float16", "tf32"})  # pruned weights are not judged on rows that are unlike the training data
LEAST_WALKED = 0.5  # honest int8 and bfloat16 0.99
MOST_TIMES = 8
_VARIED = 0.1  # of an output's size, by which it must vary over a walk to be judged
_ROWS = 4  # least number of rows in a walk
_ADVICE = "{}: look for moved or missing rows of an embedding, or ship a more precise candidate"


def checks(evidence: Evidence, answers: Sequence[Arrays], *, rounding: float) -> list[Check]:
    """Checks for the worst walk and output, and for the worst row; empty if no output varies over a walk.

    `rounding` is the share of an output's size by which a constant output may be off.
    """
    agreements: dict[str, float] = {}
    rows: dict[str, float] = {}
    for family, indices in evidence.groups.items():
        for name in evidence.reference[0] if evidence.cases[indices[0]].group == "ids" else ():
            if pair := _varying(evidence, answers, name, indices):
                agreements[f"{name}, {family}"] = differences.agreement(*pair, rounding=rounding)
                rows[f"{name}, {family}"] = _worst_row(*pair)
    if not agreements:
        return []
    worst, row = min(agreements, key=lambda label: agreements[label]), max(rows, key=lambda label: rows[label])
    return [
        Check.at_least("all_ids_agreement", agreements[worst], LEAST_WALKED, advice=_ADVICE.format(worst)),
        Check.at_most("all_ids_row_error", rows[row], 1.0, advice=_ADVICE.format(row)),
    ]


def _varying(evidence: Evidence, answers: Sequence[Arrays], name: str, indices: Sequence[int]) -> tuple[Array, Array] | None:
    """One output of the answers and of eager over a walk; None if it is not a float, hardly varies, or has no rows."""
    mine, theirs = ([one[index][name] for index in indices] for one in (answers, evidence.reference))
    if theirs[0].dtype.kind != "f" or theirs[0].ndim == 0 or len({array.shape[1:] for array in theirs}) > 1:
        return None
    pair = np.concatenate(mine), np.concatenate(theirs)
    known = np.where(np.isfinite(pair[1]), wide(pair[1]), 0)
    if len(known) < _ROWS or np.sqrt((known.std(axis=0) ** 2).mean()) <= _VARIED * np.abs(known).max(initial=0):
        return None
    return pair


def _worst_row(mine: Array, theirs: Array) -> float:
    """The largest error of a row that stands out, in units of the output's spread over the walk; 0 if none does."""
    distances = np.where(np.isfinite(theirs), wide(mine) - wide(theirs), 0).reshape(len(theirs), -1)
    known = np.where(np.isfinite(theirs), wide(theirs), 0).reshape(len(theirs), -1)
    spread = np.sqrt((known.std(axis=0) ** 2).mean())
    errors = np.sqrt((distances**2).mean(axis=1))
    outstanding = errors > MOST_TIMES * np.median(errors)
    return float(errors[outstanding].max(initial=0) / spread)
