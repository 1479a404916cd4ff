"""The end of a run: findings in the table, those that nobody has seen yet as lines, all of them for the artifact."""

from flows import summary
from flows.summary import Row
from paddleship.finding import Finding
from paddleship.report import Report
from paddleship.verdict import Check, Verdict

WARNING = Finding("batch-dependent", "warning", "padding counts", "mask it", "model.py:3")
REPORT = Report(stage="verify", headline="1 of 1", verdict=Verdict(checks=[Check.at_most("x", 0, 1)]), findings=[WARNING])


def test_the_table_counts_the_warnings_of_a_stage():
    rows = [Row("verify", "ran", REPORT), Row("benchmark", "not run", None)]
    assert [row.verdict for row in rows] == ["passed, 1 warning", "–"]
    assert "| verify | 0.0 | ran | passed, 1 warning | 1 of 1 |" in summary.markdown(rows)


def test_the_artifact_has_a_row_for_each_finding():
    (found,) = summary.findings([Row("verify", "unchanged", REPORT), Row("accept", "failed", None)])
    assert (found["stage"], found["severity"], found["kind"], found["where"]) == ("verify", "warning", "batch-dependent", "model.py:3")


def test_a_stage_that_ran_has_said_its_findings_and_one_that_did_not_run_says_them_at_the_end():
    assert summary.unseen([Row("verify", "ran", REPORT)]) == []
    assert summary.unseen([Row("verify", "failed", REPORT)]) == []
    for how in ("unchanged", "restored"):
        assert summary.unseen([Row("verify", how, REPORT)]) == [f"verify: {WARNING}"]
