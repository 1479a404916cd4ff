"""Build the report of `verify`: a row for each candidate, checks, findings, plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from paddleship.config import loosening
from paddleship.config.params import Params
from paddleship.config.sections.verify import Verify
from paddleship.diagnosis import explaining, plots
from paddleship.diagnosis.explaining import Diagnosis
from paddleship.proof import coverage
from paddleship.proof.coverage import Coverage
from paddleship.proof.evidence import ROWS
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof
from paddleship.proof.training_parity import TrainingParity
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.spec import TensorSpec

_MEASURES = (
    "noise_ratio", "typical_ratio", "batch_ratio", "repeat_ratio", "threads_ratio", "cases_repeated",
    "departure_ratio", "departure_share",
    "max_abs_diff", "max_rel_diff", "required_atol", "max_ulp", "cosine",
    "flip_rate", "flip_rate_low", "flip_rate_high", "metric", "metric_drop", "metric_drop_low", "metric_drop_high",
    "answer_flip_rate", "answer_flip_rate_low", "answer_flip_rate_high",
    "output_agreement", "output_flip_rate", "all_ids_agreement", "all_ids_row_error", "weights_compared_share", "weights_exact_share",
)  # fmt: skip
_PASSED_KEYS = ("digest", "precision", "noise_ratio", "flip_rate", "flip_rate_high", "metric", "metric_drop")


def row(
    status: Status = Status.FAILED,
    reason: str = "",
    *,
    precision: str = "float32",
    digest: str | None = None,
    finding: Finding | None = None,
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
    """The proof and the other results of `verify`.

    `rows` has the row of every candidate before it was asked. `diagnoses` has the causes for candidates that failed. `branches` and
    `branch_counts` are what inputs exercised of the control flow, `specs` the model's inputs, `training` the training parity
    if it was compared, `rescored` the checks of the scores that train recorded.
    """

    proof: Proof
    rows: Mapping[str, dict[str, Any]]
    diagnoses: Mapping[str, Diagnosis]
    branches: list[Finding]
    branch_counts: Mapping[str, float]
    specs: Sequence[TensorSpec]
    training: TrainingParity | None = None
    rescored: Sequence[Check] = ()

    @cached_property
    def coverage(self) -> Coverage:
        """The coverage of the inputs, and of the weights of proven candidates."""
        compared_weights = {name: comparison for name, comparison in self.proof.compared_weights.items() if name in self.passed}
        return coverage.measure(self.proof.evidence.cases, self.specs, compared_weights, self.proof.findings, self.branch_counts)

    @property
    def table(self) -> dict[str, dict[str, Any]]:
        """A row with the same keys for every candidate, and for `to_static` in memory."""
        return {**self.rows, **{name: self._row(name, judgement) for name, judgement in self.proof.judgements.items()}}

    @property
    def passed(self) -> dict[str, dict[str, Any]]:
        """The facts about every proven candidate for later stages."""
        if not all(check.passed for check in self.rescored):
            return {}  # what was proven is not what was trained
        proven = {name: row for name, row in self.table.items() if row["status"] == Status.PROVEN and name in self.rows}
        return {name: {key: row[key] for key in _PASSED_KEYS} for name, row in proven.items()}

    @property
    def findings(self) -> list[Finding]:
        """Findings about the model and about proven candidates; findings about others are in their rows."""
        proven = [
            replace(finding, message=f"{name}: {finding.message}")
            for name in self.passed
            for finding in self.proof.judgements[name].findings
        ]
        return [*self.proof.findings, *self.branches, *(self.training.findings if self.training else []), *proven]

    def report(self, params: Params) -> Report:
        evidence, table, passed = self.proof.evidence, self.table, self.passed
        ratios = {
            name: row["noise_ratio"] for name, row in table.items() if row["noise_ratio"] is not None and row["precision"] == "float32"
        }
        proven = [ratio for name, ratio in ratios.items() if name in passed]
        own_error = max((noise.largest / noise.scale for noise in evidence.noise[ROWS].values() if noise.scale), default=0.0)
        reports, limit = Path(params.paths.reports), params.verify.noise_limit
        drawn = plots.draw(self.proof, ratios, self.diagnoses, limit=limit, classes=params.data.class_names, reports=reports)
        return Report(
            stage="verify",
            headline=f"{len(passed)} of {len(self.rows)} candidates proven"
            + (f", noise ratio {min(proven):.2f} to {max(proven):.2f}" if proven else "")
            + params.train.limits_of_proof
            + loosening.in_headline(params)
            + (f". Covered: {self.coverage}" if passed else ""),
            metrics={
                "proven_candidates": len(passed),
                "verified_rows": len({number for case in evidence.cases for number in case.rows}),
                "verified_batches": len(evidence.cases),
                "reference_error_log10": round(math.log10(own_error), 3) if own_error else 0.0,
                **self.branch_counts,
                **self.coverage.metrics,
            },
            verdict=Verdict(checks=self._checks(params.verify)),
            findings=self.findings
            + loosened_findings(loosening.of(params))
            + ([undrawn] if (undrawn := plots.undrawn(params.data.class_names)) and plots.FLIPS in drawn else []),
            candidates=table,
            facts=self._facts(),
            pictures=drawn + (self.training.draw(limit, reports) if self.training else []),
        )

    def _row(self, name: str, judgement: Judgement) -> dict[str, Any]:
        sound = not any(finding.severity == "error" for finding in self.proof.findings)
        causes = self.diagnoses[name].findings if name in self.diagnoses else []
        return {
            **self.rows.get(name, row()),
            "status": Status.PROVEN if judgement and sound else Status.FAILED,
            "reason": "; ".join(str(check) for check in judgement.checks if not check.passed),
            "worst_case": judgement.worst_case,
            "findings": [finding.to_dict() for finding in explaining.without_consequences([*judgement.findings, *causes])],
            **{key: judgement.metrics.get(key) for key in _MEASURES},
            **self._weights(name),
        }

    def _weights(self, name: str) -> dict[str, float]:
        compared_weights = self.proof.compared_weights.get(name)
        return (
            {}
            if compared_weights is None
            else {f"weights_{what}_share": getattr(compared_weights, f"{what}_share") for what in ("compared", "exact")}
        )

    def _checks(self, settings: Verify) -> list[Check]:
        made = checks(len(self.passed), self.proof.findings, self.branches, settings)
        return [*made, *self.rescored, *(self.training.checks if self.training else [])]

    def _facts(self) -> dict[str, Any]:
        evidence = self.proof.evidence
        facts: dict[str, Any] = {
            "rule": evidence.rule,
            "why": evidence.why,
            "noise": {group: {name: noise.__dict__ for name, noise in outputs.items()} for group, outputs in evidence.noise.items()},
            "cases": [{"name": case.name, "group": case.group, "rows": len(case.rows)} for case in evidence.cases],
            "refused": self.proof.refused,
            "coverage": self.coverage.to_dict(),
            "weights": {name: compared_weights.to_dict() for name, compared_weights in self.proof.compared_weights.items()},
            "outputs": {name: judgement.outputs for name, judgement in self.proof.judgements.items()},
        }
        return facts | ({"training": {"losses": self.training.losses, "gradient_ratios": self.training.ratios}} if self.training else {})


def loosened_findings(loosened: Sequence[str]) -> list[Finding]:
    """The params that weaken the proof, in one warning."""
    message = f"the proof is weaker than by default: {', '.join(loosened)}"
    return [Finding("loosened-limits", "warning", message, "remove these from the params to prove by the defaults")] if loosened else []


def checks(proven: int, findings: Sequence[Finding], branches: Sequence[Finding], settings: Verify) -> list[Check]:
    """Checks that at least one candidate is proven, and that the model itself can be proven; `findings` are about the model."""
    errors = [finding for finding in findings if finding.severity == "error"]
    advice = "no candidate answers as eager does: see the findings in the report"
    own = f"the model itself cannot be proven: {errors[0].message}" if errors else ""
    made = [Check.at_least("proven_candidates", proven, 1, advice=advice), Check.at_most("eager_errors", len(errors), 0, advice=own)]
    if settings.require_branch_coverage:
        missing = [finding for finding in branches if finding.kind == "uncovered-branch" and finding.severity == "error"]
        branch_advice = f"{missing[0].message}, at {missing[0].where}: {missing[0].advice}" if missing else ""
        made.append(Check.at_most("uncovered_branches", len(missing), 0, advice=branch_advice))
    return made
