"""Common claims about dynamic and static graphs, as ranges of a ratio, and whether this machine confirms them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.graph_modes import comparison
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.config.graph_modes import REFERENCE, ModeName
from paddleship.statistics.estimates import Interval

Conclusion = Literal["confirmed", "refuted", "cannot tell", "untested"]


@dataclass(frozen=True)
class Claim:
    """`text` is the claim as people state it; `low` to `high` is the claimed ratio of slow over fast, for the pairs (slow, fast)."""

    text: str
    reading: str
    low: float
    high: float
    quantity: str
    pairs: tuple[tuple[ModeName, ModeName], ...]


@dataclass(frozen=True)
class ClaimResult:
    """One claim for one network and one pair of modes, with the 95% interval of the ratio if it was measured."""

    claim: Claim
    network: str
    pair: tuple[ModeName, ModeName] | None
    conclusion: Conclusion
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


CLAIMS = (
    Claim(
        "Static trains 15–30% faster",
        "step of eager / step of static: 1.15 to 1.30",
        1.15,
        1.30,
        "step_ms",
        (("paddle-eager", "paddle-static"), ("paddle-eager", "paddle-to-static"), ("paddle-eager", "paddle-sot")),
    ),
    Claim(
        "Eager forward is 10–15% slower",
        "forward of eager / forward of static, one batch: 1.10 to 1.15",
        1.10,
        1.15,
        "forward_ms",
        (("paddle-eager", "paddle-static"), ("paddle-eager", "paddle-to-static"), ("paddle-eager", "paddle-inference")),
    ),
    Claim(
        "TorchScript inference is ~40% faster",
        "forward of PyTorch eager / forward of frozen TorchScript, one batch: 1.3 to 1.5",
        1.3,
        1.5,
        "forward_ms",
        (("torch-eager", "torchscript"),),
    ),
    Claim(
        "QPS 300 → 1,200 by going static",
        "one row at a time, eager / static: 3.6 to 4.4",
        3.6,
        4.4,
        "request_ms",
        (
            ("paddle-eager", "paddle-static"),
            ("paddle-eager", "paddle-to-static"),
            ("paddle-eager", "paddle-inference"),
            ("paddle-eager", "paddle-inference-onednn"),
        ),
    ),
)
SEVERAL_DEVICES = Claim("Static graph on several devices is ~25% faster", "1.15 to 1.35", 1.15, 1.35, "step_ms", ())


def conclude(low: float, high: float, *, claimed: tuple[float, float], aa_ratio: Interval | None = None) -> Conclusion:
    """What an interval says of a claim: inside the claimed range, outside of it, or across one of its ends.

    `aa_ratio` is the ratio of the reference to itself; the interval is widened by it.
    """
    reach = aa_ratio.reach if aa_ratio else 1.0
    low, high = low / reach, high * reach
    if claimed[0] <= low and high <= claimed[1]:
        return "confirmed"
    return "refuted" if high < claimed[0] or low > claimed[1] else "cannot tell"


def settle(found: Mapping[str, Mapping[ModeName, ModeResult]], *, devices: int) -> list[ClaimResult]:
    """The result of every claim for every network and pair that was measured. `devices` is the number of accelerators of this machine."""
    settled = [
        _find(claim, network, pair, measurements, aa_ratio=measurements[REFERENCE].aa_ratio.get(claim.quantity))
        for claim in CLAIMS
        for network, measurements in found.items()
        for pair in claim.pairs
        if all(mode in measurements for mode in pair)
    ]
    why = f"it needs several accelerators, and this machine has {devices or 'none'}"
    if devices > 1:
        why = f"this comparison uses one of the {devices} accelerators"
    return [*settled, ClaimResult(SEVERAL_DEVICES, "–", None, "untested", reason=why)]


def _find(
    claim: Claim,
    network: str,
    pair: tuple[ModeName, ModeName],
    measurements: Mapping[ModeName, ModeResult],
    *,
    aa_ratio: Interval | None,
) -> ClaimResult:
    slow, fast = (measurements[mode] for mode in pair)
    interval = comparison.ratio(slow, fast, claim.quantity)
    if interval is None:
        reason = f"{pair[0]}: {slow.reason}" if slow.reason else f"{pair[1]}: {fast.reason}"
        return ClaimResult(claim, network, pair, "untested", reason=reason)
    ratio, low, high = interval
    word = conclude(low, high, claimed=(claim.low, claim.high), aa_ratio=aa_ratio)
    reason = ""
    if word == "refuted":
        reason = "more than claimed" if low > claim.high else "the opposite" if high < 1 else "less than claimed"
    return ClaimResult(claim, network, pair, word, ratio, low, high, reason)
