"""Findings in a report: kept on disk, counted, and turned into a gate."""

import json

import pytest

from paddleship.reports import gate
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict

WARNING = Finding("batch-dependent", "warning", "answers depend on padding", "mask it", "model.py:3")
NOTE = Finding("no-float64", "note", "float64 is not available")
ERROR = Finding("random-forward", "error", "it draws random numbers")


def report(*findings, passed=True):
    verdict = Verdict(checks=[Check.at_most("x", 0 if passed else 2, 1)])
    return Report(stage="verify", headline="1 of 1 proven", verdict=verdict, findings=list(findings))


def test_findings_survive_disk(tmp_path):
    made = report(WARNING, NOTE)
    made.write(tmp_path)
    assert Report.read(tmp_path, "verify") == made


def test_a_report_from_before_there_were_findings_is_read(tmp_path):
    report().write(tmp_path)
    values = json.loads((tmp_path / "verify.json").read_text())
    del values["findings"]
    (tmp_path / "verify.json").write_text(json.dumps(values))
    assert Report.read(tmp_path, "verify").findings == []


@pytest.mark.parametrize(
    ("findings", "passed", "words"),
    [
        ([], True, "passed"),
        ([NOTE], True, "passed"),
        ([WARNING, NOTE], True, "passed, 1 warning"),
        ([WARNING, WARNING], True, "passed, 2 warnings"),
        ([WARNING, ERROR], False, "failed, 1 error, 1 warning"),
    ],
)
def test_the_outcome_counts_errors_and_warnings(findings, passed, words):
    assert report(*findings, passed=passed).outcome == words


def test_errors_are_shown_before_warnings_and_notes_not_at_all():
    assert report(NOTE, WARNING, ERROR).serious() == [ERROR, WARNING]


@pytest.mark.parametrize("finding", [WARNING, NOTE, ERROR])
def test_a_kind_that_is_named_fails_the_verdict_at_any_severity(finding):
    made = report(finding)
    made.verdict = gate.verdict(made, [finding.kind])
    assert not made.verdict
    (failed,) = made.verdict.failures
    assert finding.message in str(failed)
    assert finding.advice in str(failed)


def test_a_kind_that_is_named_fails_the_verdict_where_only_a_refused_candidate_has_it_too():
    made = report()
    made.candidates["onnxruntime"] = {"status": "failed", "findings": [ERROR.to_dict()]}
    made.verdict = gate.verdict(made, [ERROR.kind])
    (failed,) = made.verdict.failures
    assert failed.measured == f"onnxruntime: {ERROR.message}"


def test_a_kind_that_is_not_named_or_not_found_fails_nothing():
    made = report(WARNING)
    made.verdict = gate.verdict(made, [])
    assert len(made.verdict.checks) == 1
    made.verdict = gate.verdict(made, ["random-forward"])
    assert made.verdict
