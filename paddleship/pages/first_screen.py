"""What a reader of a run must know in ten seconds: what it shipped, how much faster and how right that is, and whether to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paddleship.numerics import differences
from paddleship.reports import markdown, units
from paddleship.reports.figures import percent, share
from paddleship.reports.finding import counted
from paddleship.reports.order import STAGES, in_order
from paddleship.reports.provenance import measured_elsewhere
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import Difference
from paddleship.sweep.variant import Figures, SizeOf

NOT_VALID = "the speed is not valid: the machine was not free"
_REPORT_AGAIN = "run the pipeline again, so that every stage writes its report"
_AGAIN = "measure again on an idle machine: `paddleship run --again benchmark`"


@dataclass(frozen=True)
class FirstScreen:
    """`answer` is the result in a few sentences, `trust` whether it may be believed and why not, `mark` the same in a few words.

    `gates` are all checks, by stage. `usable`: no stage failed or lacks its report. `trusted`: and what was measured is valid. `advice`
    is the next step if it is not trusted.
    """

    answer: str
    trust: str
    mark: str
    usable: bool
    trusted: bool
    advice: str
    gates: tuple[tuple[str, Check], ...]

    def markdown(self) -> str:
        """The trust and the answer, as one paragraph."""
        advice = f" {self.advice[0].upper()}{self.advice[1:]}." if self.advice else ""
        return f"**{markdown.text(self.trust)}.** {markdown.text(self.answer + advice)}"


def of_run(reports: Iterable[Report], *, failure: str | None = None) -> FirstScreen:
    """The first screen of a run with these reports; `failure` is the error that ended it."""
    ordered = in_order(reports)
    by_stage = {report.stage: report for report in ordered}
    figures = Figures.of(ordered)
    gates = tuple((report.stage, check) for report in ordered for check in report.verdict.checks)
    missed = [(stage, check) for stage, check in gates if not check.passed]
    answer = _measured(figures, by_stage) if figures else _unmeasured(ordered)
    if failure or missed:
        why, mark = (
            failure or "; ".join(f"{stage}: {check}" for stage, check in missed),
            f"failed at {missed[0][0]}" if missed else "failed",
        )
        return FirstScreen(answer, f"Failed: {why}", mark, False, False, "", gates)
    if missing := _missing(ordered):
        return FirstScreen(answer, f"Not proven: {missing}", "not proven", False, False, _REPORT_AGAIN, gates)
    passed = _passed(ordered, len(gates))
    if figures and not figures.valid:
        return FirstScreen(answer, f"{passed}, but {NOT_VALID}", "speed not valid", True, False, _AGAIN, gates)
    return FirstScreen(answer, passed, "passed", True, True, "", gates)


def _measured(figures: Figures, by_stage: Mapping[str, Report]) -> str:
    """The winner: how fast it is, whether it answers as eager does, and what it costs."""
    benchmark = by_stage["benchmark"]
    sentences = [_speed(figures, benchmark), _decisions(figures, by_stage), _score(figures, by_stage), _size(figures)]
    return ". ".join(filter(None, sentences)) + "."


def _speed(figures: Figures, benchmark: Report) -> str:
    one, request = figures.speedup, f"{units.duration(figures.p50_ms.value)} for a request{measured_elsewhere(benchmark)}"
    range_ = f"95% interval {units.times(one.low)} to {units.times(one.high)}"
    if not figures.valid:
        return f"How fast {figures.winner} is cannot be told; it seemed {units.times(one.value)} as fast as eager, {request}"
    if benchmark.candidates[figures.winner].get("difference") == Difference.CANNOT_TELL:
        return f"{figures.winner} is not measurably faster than eager ({range_}), {request}"
    return f"{figures.winner} is {units.times(one.value)} as fast as eager ({range_}), {request}"


def _decisions(figures: Figures, by_stage: Mapping[str, Report]) -> str:
    row = by_stage["verify"].candidates.get(figures.winner, {}) if "verify" in by_stage else {}
    flips, ratio = row.get("flip_rate"), row.get("noise_ratio")
    if flips:
        return f"{percent(flips)} of its decisions differ from eager's"
    if flips == 0:
        return "It decides as eager does in every case that was asked"
    return f"Its error is {units.three(ratio)} times eager's own" if ratio is not None else ""


def _score(figures: Figures, by_stage: Mapping[str, Report]) -> str:
    """The score on the test rows, with its interval where it is a share of decisions, and the number of rows."""
    name = figures.score_name.removeprefix("validation_").replace("_", " ")
    if figures.test_score is not None:
        rows = int(by_stage["prepare"].metrics.get("test_rows", 0)) if "prepare" in by_stage else 0
        return f"Test {name} {share(figures.test_score)}{_of_rows(figures.test_score, rows, figures.score_has_interval)}"
    return f"Validation {name} {share(figures.score.value)}" if figures.score else ""


def _of_rows(score: float, rows: int, has_interval: bool) -> str:
    if not rows:
        return ""
    known = f"{rows:,} row{'s' * (rows > 1)}"
    if not has_interval:
        return f" ({known})"
    low, high = differences.proportion_interval(round(score * rows), rows)
    return f" (95% interval {share(low)} to {share(high)}, {known})"


def _size(figures: Figures) -> str:
    return f"{figures.size_of.value.capitalize()} take{'s' * (figures.size_of is SizeOf.IMAGE)} {units.size(figures.size_bytes)}"


def _unmeasured(ordered: list[Report]) -> str:
    if not ordered:
        return "Nothing was reported."
    last = ordered[-1]
    return f"No candidate was measured. {last.stage}: {last.headline}."


def _missing(ordered: list[Report]) -> str:
    """The stages whose report is missing, up to the last one that has a report; empty if there is none."""
    if not ordered:
        return "nothing was reported"
    reported = [report.stage for report in ordered]
    last = max((STAGES.index(stage) for stage in STAGES if stage in reported), default=0)
    missing = [stage for stage in STAGES[:last] if stage not in reported]
    if not missing:
        return ""
    one = len(missing) == 1
    return f"the report{'' if one else 's'} of {', '.join(missing)} {'is' if one else 'are'} missing"


def _passed(ordered: list[Report], gates: int) -> str:
    """How many gates passed, up to which stage if it is not the last one, and the number of errors and warnings."""
    early = f" up to {ordered[-1].stage}" if ordered and ordered[-1].stage != STAGES[-1] else ""
    findings = counted(finding.severity for report in ordered for finding in report.serious())
    return f"All {gates} gates{early} passed" + (f", with {findings}" if findings else "")
