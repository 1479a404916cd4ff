"""Variants with figures."""

from paddleship.statistics.estimates import Interval
from paddleship.sweep.variant import DONE, Ended, Figures, SizeOf, Variant


def figures(score=0.9, p50=1.0, size=100, **changes):
    """With a score of ±0.01 and a p50 of ±5%."""
    given = {
        "winner": "paddle",
        "score_name": "validation_accuracy",
        "test_score": 0.88,
        "score": Interval(score, score - 0.01, score + 0.01),
        "score_has_interval": True,
        "p50_ms": Interval(p50, p50 / 1.05, p50 * 1.05),
        "speedup": Interval(2.0, 1.9, 2.1),
        "noise_ratio": 1.0,
        "size_bytes": size,
        "size_of": SizeOf.FILES,
        "data_sha256": "d",
        "measured_on": "here",
        "valid": True,
    }
    return Figures(**given | changes)


def done(number, **changes):
    return Variant(number=number, values={"train.epochs": number}, ended=Ended(outcome=DONE, figures=figures(**changes)))


def failed(number, outcome="GateFailed", reason="accuracy is 0.5 (limit 0.8): train longer"):
    return Variant(number=number, values={"train.epochs": number}, ended=Ended(outcome=outcome, reason=reason))
