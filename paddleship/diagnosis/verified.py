"""What verify found out, put together: a row for each candidate, the checks, the findings, the pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddleship.diagnosis import exhibits
from paddleship.diagnosis.explaining import Diagnosis
from paddleship.finding import Finding
from paddleship.params import Params
from paddleship.proof.evidence import ROWS
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof
from paddleship.proof.training_parity import TrainingParity
from paddleship.report import Report
from paddleship.verdict import Check, Verdict

_MEASURES = (
    "noise_ratio", "typical_ratio", "batch_ratio", "repeat_ratio", "threads_ratio", "departure_ratio", "departure_share",
    "max_abs_diff", "max_rel_diff", "required_atol", "max_ulp", "cosine",
    "flip_rate", "flip_rate_low", "flip_rate_high", "metric", "metric_drop", "metric_drop_low", "metric_drop_high",
    "output_agreement", "output_flip_rate",
)  # fmt: skip
_KEPT = ("digest", "precision", "noise_ratio", "flip_rate", "flip_rate_high", "metric", "metric_drop")


def row(
    status: str = "failed", reason: str = "", *, precision: str = "float32", digest: str | None = None, finding: Finding | None = None
) -> dict[str, Any]:
    """The row of a candidate that was not asked (yet)."""
    return {
        "status": status,
        "reason": reason,
        "precision": precision,
        "digest": digest,
        "worst_case": "",
        "findings": [finding.to_dict()] if finding else [],
        **dict.fromkeys(_MEASURES),
    }


@dataclass(frozen=True)
class Verified:
    """The proof and what goes with it.

    `rows` has a row for every candidate as it was before it was asked, `diagnoses` why those that failed did so,
    `coverage` and `ways` what the inputs exercised of the control flow, `training` its parity where it was compared.
    """

    proof: Proof
    rows: Mapping[str, dict[str, Any]]
    diagnoses: Mapping[str, Diagnosis]
    coverage: list[Finding]
    ways: Mapping[str, float]
    training: TrainingParity | None = None

    @property
    def table(self) -> dict[str, dict[str, Any]]:
        """A row of the same keys for every candidate, and for `to_static` in memory."""
        return {**self.rows, **{name: self._row(name, judgement) for name, judgement in self.proof.judgements.items()}}

    @property
    def passed(self) -> dict[str, dict[str, Any]]:
        """What the stages after this one need to know of every candidate that is proven."""
        proven = {name: found for name, found in self.table.items() if found["status"] == "proven" and name in self.rows}
        return {name: {key: found[key] for key in _KEPT} for name, found in proven.items()}

    @property
    def findings(self) -> list[Finding]:
        """What was found out about the model and about the candidates that are proven; why others are not is in their rows."""
        proven = [
            replace(finding, message=f"{name}: {finding.message}")
            for name in self.passed
            for finding in self.proof.judgements[name].findings
        ]
        return [*self.proof.findings, *self.coverage, *(self.training.findings if self.training else []), *proven]

    def report(self, params: Params) -> Report:
        evidence, table, passed = self.proof.evidence, self.table, self.passed
        ratios = {
            name: found["noise_ratio"]
            for name, found in table.items()
            if found["noise_ratio"] is not None and found["precision"] == "float32"
        }
        proven = [ratio for name, ratio in ratios.items() if name in passed]
        own_error = max((noise.largest / noise.scale for noise in evidence.noise[ROWS].values() if noise.scale), default=0.0)
        reports, limit = Path(params.paths.reports), params.verify.noise_limit
        drawn = exhibits.draw(self.proof, ratios, self.diagnoses, limit=limit, classes=params.data.classes, reports=reports)
        return Report(
            stage="verify",
            headline=f"{len(passed)} of {len(self.rows)} candidates proven"
            + (f", noise ratio {min(proven):.2f} to {max(proven):.2f}" if proven else ""),
            metrics={
                "proven_candidates": len(passed),
                "verified_rows": len({number for case in evidence.cases for number in case.rows}),
                "verified_batches": len(evidence.cases),
                "reference_error_log10": round(math.log10(own_error), 3) if own_error else 0.0,
                **self.ways,
            },
            verdict=Verdict(checks=self._checks(params)),
            findings=self.findings,
            candidates=table,
            facts=self._facts(),
            pictures=drawn + (self.training.draw(limit, reports) if self.training else []),
        )

    def _row(self, name: str, judgement: Judgement) -> dict[str, Any]:
        sound = not any(finding.severity == "error" for finding in self.proof.findings)
        causes = self.diagnoses[name].findings if name in self.diagnoses else []
        return {
            **self.rows.get(name, row()),
            "status": "proven" if judgement and sound else "failed",
            "reason": "; ".join(str(check) for check in judgement.checks if not check.passed),
            "worst_case": judgement.worst_case,
            "findings": [finding.to_dict() for finding in [*judgement.findings, *causes]],
            **{key: judgement.metrics.get(key) for key in _MEASURES},
        }

    def _checks(self, params: Params) -> list[Check]:
        errors = [finding for finding in self.proof.findings if finding.severity == "error"]
        advice = "no candidate answers as eager does: see the findings in the report"
        own = f"the model itself cannot be proven: {errors[0].message}" if errors else ""
        checks = [
            Check.at_least("proven_candidates", len(self.passed), 1, advice=advice),
            Check.at_most("eager_errors", len(errors), 0, advice=own),
        ]
        if params.verify.require_branch_coverage:
            missing = [finding for finding in self.coverage if finding.kind == "uncovered-branch" and finding.severity == "error"]
            words = f"{missing[0].message}, at {missing[0].where}: {missing[0].advice}" if missing else ""
            checks.append(Check.at_most("uncovered_branches", len(missing), 0, advice=words))
        return checks + (self.training.checks if self.training else [])

    def _facts(self) -> dict[str, Any]:
        evidence = self.proof.evidence
        facts: dict[str, Any] = {
            "rule": evidence.rule,
            "why": evidence.why,
            "noise": {group: {name: noise.__dict__ for name, noise in outputs.items()} for group, outputs in evidence.noise.items()},
            "cases": [{"name": case.name, "group": case.group, "rows": len(case.rows)} for case in evidence.cases],
            "refused": self.proof.refused,
            "outputs": {name: judgement.outputs for name, judgement in self.proof.judgements.items()},
        }
        return facts | ({"training": {"losses": self.training.losses, "gradient_ratios": self.training.ratios}} if self.training else {})
