"""The gate `verify.fail_on`: findings that fail a stage."""

from __future__ import annotations

from collections.abc import Sequence

from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict

_GATE = "verify.fail_on"


def verdict(report: Report, kinds: Sequence[str]) -> Verdict:
    """The report's verdict, failed if it has a finding of one of these kinds, of any severity, also about a candidate that is not used."""
    if not kinds:
        return report.verdict
    by_message = {finding.message: (finding.kind, str(finding).split("\n")[0], finding.advice) for finding in report.findings}
    for name, row in report.candidates.items():
        for fact in row.get("findings", []):
            by_message.setdefault(f"{name}: {fact['message']}", (fact["kind"], f"{name}: {fact['message']}", fact["advice"]))
    checks = [
        Check(name=_GATE, measured=text, limit="none of this kind", passed=False, advice=advice)
        for kind, text, advice in by_message.values()
        if kind in kinds
    ]
    none = Check(name=_GATE, measured="none found", limit=f"no finding of {', '.join(kinds)}", passed=True)
    return Verdict(checks=[*report.verdict.checks, *(checks or [none])])
