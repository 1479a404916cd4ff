"""Reports of a run that measured two candidates, and what of them a test changes."""

from paddleship.reports.finding import Finding
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.reports.verdict import Check, Verdict

PASSED = Verdict(checks=[Check.at_least("loss", 1, 1)])


def reports(
    *,
    accuracy=0.86,
    p50=0.02,
    speedup=7.5,
    size=252e6,
    eager=None,
    valid=True,
    flips=0.0,
    until="accept",
    names=("onnxruntime", "paddle"),
    **accept,
):
    """The reports of a run whose first candidate won."""
    measured = {
        name: {
            "status": Status.MEASURED,
            "p50_ms": p50 * (1 + index),
            "speedup": speedup / (1 + index),
            "speedup_low": 0.9 * speedup / (1 + index),
            "speedup_high": 1.1 * speedup / (1 + index),
            "metric": accuracy,
            "winner": index == 0,
            "file_bytes": 1000,
            "noise_ratio": 0.9,
        }
        for index, name in enumerate(names)
    }
    if eager is not None:
        measured["eager"] = {"status": Status.MEASURED, "p50_ms": eager, "winner": False}
    proven = {name: {"status": Status.PROVEN, "flip_rate": flips, "noise_ratio": 0.9} for name in names}
    made = [
        Report(
            stage="prepare",
            headline="2,000 rows",
            metrics={"validation_rows": 2000, "test_rows": 1000},
            verdict=PASSED,
            facts={"data_sha256": "da7a"},
        ),
        Report(
            stage="train",
            headline="trained",
            metrics={"validation_accuracy": accuracy, "test_accuracy": accuracy},
            verdict=PASSED,
            findings=[Finding(kind="unusable-rows", severity="warning", message="the loss is flat", advice="raise `train.learning_rate`")],
        ),
        Report(stage="verify", headline="2 proven", verdict=PASSED, candidates=proven),
        Report(
            stage="benchmark",
            headline="fast",
            verdict=PASSED,
            candidates=measured,
            facts={"winner": names[0], "benchmark_valid": valid, "reason": "it is the fastest", "effect": 0.05},
        ),
        Report(stage="package", headline="packed", metrics={"image_bytes": size}, verdict=PASSED),
        *(Report(stage=stage, headline="done", verdict=PASSED) for stage in ("export", "optimize")),
        Report(stage="accept", headline="accepted", verdict=Verdict(checks=[Check.at_most("wrong_answers", accept.get("wrong", 0), 0)])),
    ]
    return [report for report in made if STAGES.index(report.stage) <= STAGES.index(until)]
