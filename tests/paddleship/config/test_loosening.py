"""Params that weaken the proof are named with their defaults; stricter ones are not."""

import pytest

from paddleship.config import loosening
from paddleship.config.sections.accept import Accept
from paddleship.config.sections.verify import Verify
from paddleship.diagnosis.verify_report import loosened_findings


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"noise_limit": 2000}, "verify.noise_limit 2000 (default 8)"),
        ({"typical_limit": 1e5}, "verify.typical_limit 100000 (default 3)"),
        ({"invariance_limit": 1e5}, "verify.invariance_limit 100000 (default 2)"),
        ({"max_flip_rate": 0.5}, "verify.max_flip_rate 0.5 (default 0.02)"),
        ({"max_metric_drop": 0.99999}, "verify.max_metric_drop 0.99999 (default 0.01)"),
        ({"samples": 8}, "verify.samples 8 (default 256)"),
        ({"threads": 1}, "verify.threads 1 (default 4)"),
    ],
)
def test_a_weaker_limit_of_verify_is_named_with_its_default(changed, text):
    assert loosening.of_verify(Verify(**changed)) == [text]


def test_defaults_and_stricter_limits_are_not_named():
    assert loosening.of_verify(Verify()) == []
    assert loosening.of_verify(Verify(noise_limit=2, samples=1000, threads=8)) == []
    assert loosening.of_accept(Accept(concurrency=16)) == []


def test_fewer_callers_of_accept_are_named():
    assert loosening.of_accept(Accept(concurrency=1)) == ["accept.concurrency 1 (default 8)"]


def test_loosened_limits_are_one_warning_in_the_report():
    (finding,) = loosened_findings(["verify.noise_limit 2000 (default 8)"])
    assert (finding.kind, finding.severity) == ("loosened-limits", "warning")
    assert loosened_findings([]) == []
