"""Checks of answers that must not change: asked again, by concurrent callers, in another batch, or by the exported program.

`to_static` and the exported program on one thread of Paddle's plain kernels round as eager does, to the bit in every honest export so
far. So they are compared with eager itself, which finds errors that are too small to distinguish from another runtime's rounding. A
candidate that was converted from such a program fails if its answers depart in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paddleship.config.sections.verify import Verify
from paddleship.proof import invariance
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Arrays

_SAME_DEPARTURE = 0.5  # share of the program's departure: near 0 for an independent error, near 1 for an inherited one
_DEPARTURE = "departure_ratio"
_KINDS = {
    "repeat_ratio": ("not-deterministic", "the same input gives another answer later", "keep no state between calls"),
    "threads_ratio": (
        "thread-specific",
        "concurrent callers get different answers from a single caller",
        "let callers take turns on the runtime",
    ),
    "batch_ratio": (
        "batch-variant",
        "the answer to a row changes with its batch, where eager's does not",
        "look for fixed sizes in the program",
    ),
    _DEPARTURE: (
        "program-departs",
        "the exported program answers differently from eager on the same kernels",
        "compare its weights and constants with the checkpoint and the code, and export again",
    ),
    "departure_share": (
        "program-departs",
        "the exported program differs from eager, and the candidate converted from it has the same error",
        "fix the export",
    ),
}


def add(judgement: Judgement, changes: Mapping[str, float], limits: Mapping[str, float]) -> Judgement:
    """Add a check for each measured change, and a finding if it fails."""
    checks = [Check.at_most(key, value, limits[key], advice=f"{_KINDS[key][1]}: {_KINDS[key][2]}") for key, value in changes.items()]
    findings = [
        Finding(kind, "error", f"{message} ({check.measured} {_unit(check)})", advice)
        for check in checks
        if not check.passed
        for kind, message, advice in [_KINDS[check.name]]
    ]
    return replace(
        judgement,
        metrics={**judgement.metrics, **changes},
        checks=[*judgement.checks, *checks],
        findings=[*judgement.findings, *findings],
    )


def limits(judgement: Judgement, settings: Verify, *, precision: str) -> dict[str, float]:
    """The limit of each change. Another batch may use another kernel, so its limit is twice as large."""
    if precision != "float32":
        return dict.fromkeys(_KINDS, max(settings.noise_limit, 2 * judgement.metrics["noise_ratio"]))
    return {**dict.fromkeys(_KINDS, settings.invariance_limit), "batch_ratio": 2 * settings.invariance_limit}


def hold_to_eager(judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], *, settings: Verify) -> Judgement:
    """Add a check that the answers equal eager's, for a model with eager's own kernels."""
    if not judgement.metrics:
        return judgement
    return add(judgement, {_DEPARTURE: invariance.departure(evidence, answers)}, {_DEPARTURE: settings.invariance_limit})


def departs(judgement: Judgement) -> bool:
    return any(check.name == _DEPARTURE and not check.passed for check in judgement.checks)


def hold_to_program(judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], *, program: Sequence[Arrays]) -> Judgement:
    """For a candidate of a program that departs from eager: add a check that its answers do not depart in the same way."""
    if not judgement.metrics:
        return judgement
    share = invariance.shared(evidence, program, answers)
    return add(judgement, {"departure_share": share}, {"departure_share": _SAME_DEPARTURE})


def _unit(check: Check) -> str:
    return "of it" if check.name == "departure_share" else "× eager's noise"
