"""The page that settles it: each claim with its verdict, then every mode of every network with its figures, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.graphmodes import lines
from paddleship.graphmodes.claims import Finding
from paddleship.graphmodes.racing import Measurement

_RATIO = (
    "A ratio is slow over fast as the claim has it, with its 95% interval over the starts of the processes and their interleaved blocks. "
    "For the verdict the interval is widened by what Paddle eager shows against itself in a second process."
)
_HEAD = (
    "| mode | step ms | forward ms | one row ms | peak MB | first step s | lines | without code | noise |",
    "|---|---|---|---|---|---|---|---|---|",
)


def markdown(
    found: Mapping[str, Mapping[ModeName, Measurement]], findings: Sequence[Finding], *, facts: Sequence[str], host: Mapping[str, str]
) -> str:
    """The whole page. `facts` are sentences about how it was measured."""
    text = ["# Dynamic and static graphs on this machine", "", ", ".join(f"{key} {value}" for key, value in host.items()) + ".", ""]
    text += ["## The claims", "", _RATIO, ""]
    for claim in dict.fromkeys(finding.claim for finding in findings):
        text += [f"### {claim.text}", "", *_claim([finding for finding in findings if finding.claim is claim]), ""]
    text += ["## The modes", "", *facts, ""]
    for network, measurements in found.items():
        text += [f"### {network}", "", *_HEAD, *(_row(measurement) for measurement in measurements.values()), ""]
        text += [*_noises(measurements), *_reasons(measurements), ""]
    text += [f"Lines: {lines.RULE}", ""]
    return "\n".join(text)


def summary(findings: Sequence[Finding]) -> str:
    """All verdicts in one line."""
    counts = Counter(finding.word for finding in findings)
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _claim(findings: Sequence[Finding]) -> list[str]:
    if findings[0].pair is None:
        return [f"**{findings[0].word}**: {findings[0].reason}."]
    rows = [
        f"| {finding.network} | {' / '.join(finding.pair or ())} | {_interval(finding)} | **{finding.word}** | {_cell(finding.reason)} |"
        for finding in findings
    ]
    reading = f"Read as {findings[0].claim.reading}. Here: {summary(findings)}."
    return [reading, "", "| network | pair | ratio (95% interval) | verdict | |", "|---|---|---|---|---|", *rows]


def _interval(finding: Finding) -> str:
    return "–" if finding.ratio is None else f"{finding.ratio:.2f} ({finding.low:.2f} to {finding.high:.2f})"


def _row(measurement: Measurement) -> str:
    facts, memory = measurement.facts, measurement.peak_memory_bytes
    cells = [_number(measurement.median(quantity), 3) for quantity in ("step_ms", "forward_ms", "request_ms")]
    cells += [_number(memory / 1e6 if memory else None, 0), _number(facts.get("first_step_s"), 2), _number(facts.get("lines"), 0)]
    cells += ["–" if measurement.deploys is None else "yes" if measurement.deploys else "no", _number(_noise(facts), 2)]
    return f"| {MODES[measurement.mode].title} | {' | '.join(cells)} |"


def _noises(measurements: Mapping[ModeName, Measurement]) -> list[str]:
    """What the reference shows against itself."""
    words = {"step_ms": "step", "forward_ms": "forward", "request_ms": "one row"}
    found = [
        f"{words[quantity]} {noise.value:.2f} ({noise.low:.2f} to {noise.high:.2f})"
        for quantity, noise in measurements[REFERENCE].noise.items()
    ]
    return [f"* {MODES[REFERENCE].title} against itself: {', '.join(found)}"] if found else []


def _reasons(measurements: Mapping[ModeName, Measurement]) -> list[str]:
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
