"""Rows that walk through every id, in a lower precision: they have no labels, and are unlike what was trained and calibrated on.

So only large errors are refused there. Over one walk, each float output must repeat LEAST_WALKED of its variance; and no row's
answer may be off by more than the output varies over the walk, and MOST_TIMES as far as half of the rows are. An embedding whose
rows were moved gives many rows, or one, the answer to another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array, wide
from paddleship.proof.evidence import Evidence
from paddleship.reports.verdict import Check
from paddleship.shipped.common.spec import Arrays

PRECISIONS = frozenset({"int8", "bfloat16", "float16"})  # pruned weights promise nothing of rows that were not trained on
LEAST_WALKED = 0.5  # honest int8 and bfloat16 0.99
MOST_TIMES = 8
_VARIED = 0.1  # of an output's size, by which it must vary over a walk at least; else nothing is said of it
_ROWS = 4  # that a walk must have
_ADVICE = "{}: look for moved or missing rows of an embedding, or ship a more precise candidate"


def checks(evidence: Evidence, answers: Sequence[Arrays], *, rounding: float) -> list[Check]:
    """The worst walk and output, and the worst row of all; nothing where no output varies over a walk.

    `rounding` is the share of an output's size that a constant one may be off.
    """
    agreements: dict[str, float] = {}
    rows: dict[str, float] = {}
    for family, places in evidence.groups.items():
        for name in evidence.reference[0] if evidence.cases[places[0]].group == "ids" else ():
            if pair := _varying(evidence, answers, name, places):
                agreements[f"{name}, {family}"] = differences.agreement(*pair, rounding=rounding)
                rows[f"{name}, {family}"] = _worst_row(*pair)
    if not agreements:
        return []
    worst, row = min(agreements, key=lambda words: agreements[words]), max(rows, key=lambda words: rows[words])
    return [
        Check.at_least("walked_agreement", agreements[worst], LEAST_WALKED, advice=_ADVICE.format(worst)),
        Check.at_most("walked_row_error", rows[row], 1.0, advice=_ADVICE.format(row)),
    ]


def _varying(evidence: Evidence, answers: Sequence[Arrays], name: str, places: Sequence[int]) -> tuple[Array, Array] | None:
    """One output of the answers and of eager over the rows of a walk; None where that is no float, hardly varies, or has no rows."""
    mine, theirs = ([one[place][name] for place in places] for one in (answers, evidence.reference))
    if theirs[0].dtype.kind != "f" or theirs[0].ndim == 0 or len({array.shape[1:] for array in theirs}) > 1:
        return None
    found = np.concatenate(mine), np.concatenate(theirs)
    known = np.where(np.isfinite(found[1]), wide(found[1]), 0)
    if len(known) < _ROWS or np.sqrt((known.std(axis=0) ** 2).mean()) <= _VARIED * np.abs(known).max(initial=0):
        return None
    return found


def _worst_row(mine: Array, theirs: Array) -> float:
    """The largest error of a row that stands out from the others', in units of the output's spread over the walk; 0 where none does."""
    distances = np.where(np.isfinite(theirs), wide(mine) - wide(theirs), 0).reshape(len(theirs), -1)
    known = np.where(np.isfinite(theirs), wide(theirs), 0).reshape(len(theirs), -1)
    spread = np.sqrt((known.std(axis=0) ** 2).mean())
    errors = np.sqrt((distances**2).mean(axis=1))
    outstanding = errors > MOST_TIMES * np.median(errors)
    return float(errors[outstanding].max(initial=0) / spread)
