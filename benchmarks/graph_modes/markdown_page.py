"""The page of the comparison in Markdown: each claim with its result, then the figures of every mode of every network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.graph_modes import line_count
from benchmarks.graph_modes.claims import ClaimResult
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.config.graph_modes import MODES, REFERENCE, ModeName

_RATIO = (
    "A ratio is the time of the first mode over the time of the second, with its 95% interval over the starts of the processes and their "
    "interleaved blocks. "
    "For the result the interval is widened by the A/A ratio: Paddle eager compared with a second process of itself."
)
_HEAD = (
    "| mode | step ms | forward ms | one row ms | peak MB | first step s | lines | without code | noise |",
    "|---|---|---|---|---|---|---|---|---|",
)


def markdown(
    found: Mapping[str, Mapping[ModeName, ModeResult]], results: Sequence[ClaimResult], *, facts: Sequence[str], host: Mapping[str, str]
) -> str:
    """The whole page. `facts` are sentences about how it was measured."""
    text = ["# Dynamic and static graphs on this machine", "", ", ".join(f"{key} {value}" for key, value in host.items()) + ".", ""]
    text += ["## The claims", "", _RATIO, ""]
    for claim in dict.fromkeys(result.claim for result in results):
        text += [f"### {claim.text}", "", *_claim([result for result in results if result.claim is claim]), ""]
    text += ["## The modes", "", *facts, ""]
    for network, measurements in found.items():
        text += [f"### {network}", "", *_HEAD, *(_row(measurement) for measurement in measurements.values()), ""]
        text += [*_aa_ratios(measurements), *_reasons(measurements), ""]
    text += [f"Lines: {line_count.RULE}", ""]
    return "\n".join(text)


def summary(results: Sequence[ClaimResult]) -> str:
    """The number of results by conclusion, in one line."""
    counts = Counter(result.conclusion for result in results)
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _claim(results: Sequence[ClaimResult]) -> list[str]:
    if results[0].pair is None:
        return [f"**{results[0].conclusion}**: {results[0].reason}."]
    rows = [
        f"| {result.network} | {' / '.join(result.pair or ())} | {_interval(result)} | **{result.conclusion}** | {_cell(result.reason)} |"
        for result in results
    ]
    reading = f"Tested as {results[0].claim.reading}. Here: {summary(results)}."
    return [reading, "", "| network | pair | ratio (95% interval) | result | |", "|---|---|---|---|---|", *rows]


def _interval(result: ClaimResult) -> str:
    return "–" if result.ratio is None else f"{result.ratio:.2f} ({result.low:.2f} to {result.high:.2f})"


def _row(measurement: ModeResult) -> str:
    facts, memory = measurement.facts, measurement.peak_memory_bytes
    cells = [_number(measurement.median(quantity), 3) for quantity in ("step_ms", "forward_ms", "request_ms")]
    cells += [_number(memory / 1e6 if memory else None, 0), _number(facts.get("first_step_s"), 2), _number(facts.get("lines"), 0)]
    cells += ["–" if measurement.deploys is None else "yes" if measurement.deploys else "no", _number(_noise(facts), 2)]
    return f"| {MODES[measurement.mode].title} | {' | '.join(cells)} |"


def _aa_ratios(measurements: Mapping[ModeName, ModeResult]) -> list[str]:
    """The ratios of the reference to itself."""
    words = {"step_ms": "step", "forward_ms": "forward", "request_ms": "one row"}
    found = [
        f"{words[quantity]} {aa.value:.2f} ({aa.low:.2f} to {aa.high:.2f})" for quantity, aa in measurements[REFERENCE].aa_ratio.items()
    ]
    return [f"* {MODES[REFERENCE].title} in two processes (A/A ratio): {', '.join(found)}"] if found else []


def _reasons(measurements: Mapping[ModeName, ModeResult]) -> list[str]:
    reasons = [f"* {MODES[mode].title}: {_cell(row.reason)}" for mode, row in measurements.items() if row.reason]
    reasons += [
        f"* {MODES[mode].title}, saved as {MODES[mode].form}, does not run without the model's code: {_cell(row.deploys_reason)}"
        for mode, row in measurements.items()
        if row.deploys is False
    ]
    return reasons


def _noise(facts: Mapping[str, Any]) -> float | None:
    ratios = [ratio for ratio in (facts.get("answer_noise"), facts.get("loss_noise")) if ratio is not None]
    return max(ratios, default=None)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")[:300]
