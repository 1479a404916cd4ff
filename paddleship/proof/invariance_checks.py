"""Checks on what should not change: asked again, by many callers, in another batch, or as the exported program on eager's own kernels.

`to_static` and the exported program on one thread of Paddle's plain kernels round as eager does, to the bit in every
honest export that was seen. So they are held to eager itself, and a fault that is too small to be told from another
runtime's rounding is found there; what is converted from such a program fails with it where it departs the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paddleship.config.params import Verify
from paddleship.proof import invariance
from paddleship.proof.evidence import Evidence
from paddleship.proof.parity import Judgement
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.common.spec import Arrays

_SAME_DEPARTURE = 0.5  # share of the program's departure; an own one is near 0, an inherited one near 1
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
    """The judgement with a check, and a finding where it fails, for each measured change."""
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
    """How much may change with the circumstances. Another batch may take another kernel, and so round twice otherwise."""
    if precision != "float32":
        return dict.fromkeys(_KINDS, max(settings.noise_limit, 2 * judgement.metrics["noise_ratio"]))
    return {**dict.fromkeys(_KINDS, settings.drift_limit), "batch_ratio": 2 * settings.drift_limit}


def hold_to_eager(judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], *, settings: Verify) -> Judgement:
    """The judgement with a check that the answers are eager's own, which eager's kernels give."""
    if not judgement.metrics:
        return judgement
    return add(judgement, {_DEPARTURE: invariance.departure(evidence, answers)}, {_DEPARTURE: settings.drift_limit})


def departs(judgement: Judgement) -> bool:
    return any(check.name == _DEPARTURE and not check.passed for check in judgement.checks)


def hold_to_program(judgement: Judgement, evidence: Evidence, answers: Sequence[Arrays], *, program: Sequence[Arrays]) -> Judgement:
    """The judgement on what was converted from a program that departs: it fails with it where its answers depart the same way."""
    if not judgement.metrics:
        return judgement
    share = invariance.shared(evidence, program, answers)
    return add(judgement, {"departure_share": share}, {"departure_share": _SAME_DEPARTURE})


def _unit(check: Check) -> str:
    return "of it" if check.name == "departure_share" else "× eager's noise"
