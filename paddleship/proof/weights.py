"""Add the comparison of a candidate's weights with the checkpoint to its judgement."""

from __future__ import annotations

from dataclasses import replace

from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.weights import weight_comparison
from paddleship.weights.weight_comparison import WeightComparison

CHECK = "weights"
NOT_COMPARED = "weights-not-compared"
_UNREAD = f"the weights in its files were not compared with the checkpoint ({weight_comparison.NO_READER})"
_ADVICE = "name one, `weights=` in the registration (docs/how-to/add-runtime.md), or rely on the rows that were compared"


def hold_to_checkpoint(judgement: Judgement, compared_weights: WeightComparison | None) -> Judgement:
    """Add a check of the candidate's files; without a comparison, the judgement is unchanged."""
    if compared_weights is None:
        return judgement
    if not compared_weights.compared_at_all:
        return replace(judgement, findings=[*judgement.findings, Finding(NOT_COMPARED, "warning", _UNREAD, _ADVICE)])
    problems = compared_weights.problems()
    what = "the files cannot be read" if compared_weights.unread else f"{len(problems)} {'differs' if len(problems) == 1 else 'differ'}"
    advice = f"{problems[0].message}: {problems[0].advice}" if problems else ""
    check = Check(name=CHECK, measured=what if problems else "none differs", limit="the checkpoint's", passed=not problems, advice=advice)
    return replace(judgement, checks=[*judgement.checks, check], findings=[*judgement.findings, *problems])
