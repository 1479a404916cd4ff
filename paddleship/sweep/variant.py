"""A variant of a sweep: its values, how its run ended, and what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import sqrt
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import Score
from paddleship.errors import Cancelled, Unavailable, without_credentials
from paddleship.numerics import differences
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import Interval
from paddleship.sweep import space

DONE, KILLED = "done", "Killed"
_AGAIN = (Cancelled.outcome, KILLED, Unavailable.outcome)  # the input is not at fault, so a later command runs the variant again


class SizeOf(StrEnum):
    """What the size of a variant is the size of."""

    FILES = "the winner's files"
    IMAGE = "the image"


class RowRecord(StrEnum):
    """Whether a run recorded what each validation row adds to its score, and why not."""

    RECORDED = "recorded"
    EARLIER = "made by an earlier version"
    NO_SUM = "the score is no sum over rows"
    LEFT_OUT = "too many rows, or not finite"


class Figures(BaseModel):
    """What a variant measured, each with its 95% interval where there is one.

    `score` is eager's on all validation rows, within `score_range`; `score_code` identifies a metric of the user's, `row_scores` is what
    each row adds to the score (packed), `row_record` why there is none, `data_sha256` names the rows. `p50_ms` is the winner's for one
    request, `speedup` that over the variant's own eager model, measured in turns with it. The interval of `p50_ms` is as wide as the
    largest of: the interval of the speedup, the ratio of eager to itself, and half of `benchmark.effect` on each side. `eager_ms` is
    eager's p50, as wide as the latter two; `sweep` names the sweep that measured its variants one after the other.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    winner: str
    score_name: str
    score: Interval | None
    score_has_interval: bool
    score_range: tuple[float | None, float | None] = (None, None)
    score_code: str = ""
    row_scores: str = ""
    row_record: RowRecord = RowRecord.EARLIER
    test_score: float | None = None
    p50_ms: Interval
    speedup: Interval
    eager_ms: Interval | None = None
    noise_ratio: float | None
    size_bytes: int
    size_of: SizeOf
    data_sha256: str
    measured_on: str
    sweep: str = ""
    valid: bool

    @classmethod
    def of(cls, reports: Sequence[Report], *, sweep: str = "") -> Figures | None:
        """From the reports of a run, of this sweep if it is a variant; None if it did not measure anything."""
        by_stage = {report.stage: report for report in reports}
        benchmark = by_stage.get("benchmark")
        if benchmark is None or "winner" not in benchmark.facts:
            return None
        row = benchmark.candidates[benchmark.facts["winner"]]
        speedup = Interval(*(float(row[key]) for key in ("speedup", "speedup_low", "speedup_high")))
        name, score, has_interval = _score(by_stage)
        package = by_stage.get("package")
        facts = by_stage["train"].facts if "train" in by_stage else {}
        return cls(
            winner=benchmark.facts["winner"],
            score_name=name,
            score=score,
            score_has_interval=has_interval,
            score_range=_range(by_stage.get("train")),
            score_code=str(facts.get("score_code", "")),
            row_scores=str(facts.get("row_scores", "")),
            row_record=_row_record(by_stage.get("train")),
            test_score=_test_score(by_stage.get("train")),
            p50_ms=_p50(float(row["p50_ms"]), speedup, benchmark),
            speedup=speedup,
            eager_ms=_eager(benchmark),
            noise_ratio=row.get("noise_ratio"),
            size_bytes=int(package.metrics["image_bytes"] if package else row["file_bytes"]),
            size_of=SizeOf.IMAGE if package else SizeOf.FILES,
            data_sha256=str(by_stage["prepare"].facts.get("data_sha256", "")) if "prepare" in by_stage else "",
            measured_on=str(benchmark.facts.get("measured_on", "")),
            sweep=sweep,
            valid=bool(benchmark.facts.get("benchmark_valid", True)),
        )


class Missed(BaseModel):
    """A gate that a variant missed: its stage, and the check with the value and the limit."""

    model_config = ConfigDict(frozen=True)

    stage: str
    check: Check

    @classmethod
    def of(cls, reports: Iterable[Report]) -> tuple[Missed, ...]:
        return tuple(cls(stage=report.stage, check=check) for report in reports for check in report.verdict.failures)


class Ended(BaseModel):
    """How the run of a variant ended. `outcome` is DONE, or the outcome of the error that `reason` describes.

    `findings` are the errors and warnings of its stages, `missed` the gates that it missed.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    outcome: str
    reason: str = ""
    flow_run: str = ""
    figures: Figures | None = None
    findings: tuple[Finding, ...] = ()
    missed: tuple[Missed, ...] = ()

    @field_validator("reason")
    @classmethod
    def _without_credentials(cls, reason: str) -> str:
        return without_credentials(reason)

    @property
    def is_final(self) -> bool:
        """Whether a later command keeps this end."""
        return self.outcome not in _AGAIN


class Variant(BaseModel):
    """One variant: its number from 1, its values by path, the flow run that a deployment has for it, and its end if it has ended."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    number: int
    values: dict[str, Any]
    flow_run: str = ""
    ended: Ended | None = None

    @property
    def label(self) -> str:
        return space.label(self.values)

    @property
    def figures(self) -> Figures | None:
        return self.ended.figures if self.ended and self.ended.outcome == DONE else None


def _score(by_stage: dict[str, Report]) -> tuple[str, Interval | None, bool]:
    """Name and value of the validation score: the test rows are left to judge what is chosen by it.

    Only a share of decisions has an interval; the value of any other score stands for itself.
    """
    train, prepare = by_stage.get("train"), by_stage.get("prepare")
    score = _kind_of_score(train) if train else None
    if train is None or score is None:
        return "score", None, False
    name = f"validation_{score.name}"
    if name not in train.metrics:
        return name, None, False
    value = float(train.metrics[name])
    rows = int(prepare.metrics.get("validation_rows", 0)) if prepare else 0
    if not score.share_of_decisions or not rows:
        return name, Interval(value, value, value), False
    return name, Interval(value, *differences.proportion_interval(round(value * rows), rows)), True


def _test_score(train: Report | None) -> float | None:
    score = _kind_of_score(train) if train else None
    value = train.metrics.get(f"test_{score.name}") if train and score else None
    return None if value is None else float(value)


def _row_record(train: Report | None) -> RowRecord:
    score = _kind_of_score(train) if train else None
    if score is not None and score.parts is None and score.shares is None:
        return RowRecord.NO_SUM
    if train is None or "row_scores" not in train.facts:
        return RowRecord.EARLIER
    return RowRecord.RECORDED if train.facts["row_scores"] else RowRecord.LEFT_OUT


def _range(train: Report | None) -> tuple[float | None, float | None]:
    score = _kind_of_score(train) if train else None
    return score.range if score else (None, None)


def _kind_of_score(train: Report) -> Score | None:
    """The score of the task of a training, by the metrics in its report; None without one."""
    scores = [one.registration.score for one in task_kinds.found().values()]
    return next((score for score in scores if {f"validation_{score.name}", f"test_{score.name}"} & train.metrics.keys()), None)


def _p50(value: float, speedup: Interval, benchmark: Report) -> Interval:
    spread = max(speedup.high / speedup.value, speedup.value / speedup.low, _spread(benchmark))
    return Interval(value, value / spread, value * spread)


def _eager(benchmark: Report) -> Interval | None:
    value = benchmark.candidates.get("eager", {}).get("p50_ms")
    return None if value is None else Interval(value, value / _spread(benchmark), value * _spread(benchmark))


def _spread(benchmark: Report) -> float:
    """The factor by which two measurements of one model may differ in a benchmark."""
    facts = benchmark.facts
    half_effect = sqrt(1 + float(facts.get("effect") or 0))
    if facts.get("aa_ratio_low") and facts.get("aa_ratio_high"):
        return max(half_effect, Interval(1, facts["aa_ratio_low"], facts["aa_ratio_high"]).reach)
    return half_effect
