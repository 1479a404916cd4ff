"""Compare a request sample with the training profile, feature by feature.

A feature has drifted if two things hold. The difference is no chance: a chi-squared test of its bins (scipy.stats.chi2_contingency), with
the p-values of all features adjusted so that the expected share of false alarms stays below a limit whatever the dependence between
features is (Benjamini and Yekutieli 2001, scipy.stats.false_discovery_control). And it is large enough to matter: the Jensen-Shannon
distance of the bins, base 2, from 0 (equal) to 1 (nothing in common); a large sample alone makes no alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from paddleship.config.sections.drift import Drift
from paddleship.drift.samples import Sample
from paddleship.shipped.computing.features import Bins

_FEWEST_EXPECTED = 5  # in a bin, for the chi-squared distribution to hold (Cochran 1954); bins with fewer are taken together


class DriftVerdict(StrEnum):
    """What the requests show of a feature."""

    DRIFTED = "drifted"
    SAME = "no drift found"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class FeatureDrift:
    """One feature: distance of its distributions, adjusted p-value, and the share of requests with values that no training row has.

    The p-value is None where too few requests were counted to compute one.
    """

    name: str
    distance: float
    p_value: float | None
    unseen_share: float
    verdict: DriftVerdict
    training: tuple[float, ...]
    requests: tuple[float, ...]
    bins: Bins


@dataclass(frozen=True)
class DriftResult:
    """All features of a model, the largest distance first. True if none has drifted."""

    sample: Sample
    features: tuple[FeatureDrift, ...]
    settings: Drift

    def __bool__(self) -> bool:
        return not self.drifted

    @property
    def drifted(self) -> list[FeatureDrift]:
        return [feature for feature in self.features if feature.verdict == DriftVerdict.DRIFTED]

    @property
    def left_out(self) -> list[str]:
        """Features that are not watched, because there are too many."""
        return list(self.sample.profile["left_out"])

    @property
    def headline(self) -> str:
        rows, all_ = f"{self.sample.rows:,} requests", len(self.features)
        if self.sample.rows < self.settings.min_rows:
            return f"cannot tell: {rows} were counted in {self.settings.hours} h, and drift.min_rows is {self.settings.min_rows:,}"
        if self.drifted:
            return f"{len(self.drifted)} of {all_} features drifted in {rows}: {', '.join(feature.name for feature in self.drifted)}"
        return f"no drift found in {all_} features of {rows}"


def compare(sample: Sample, settings: Drift) -> DriftResult:
    """Compare every feature of the sample with the training rows."""
    from scipy.stats import false_discovery_control

    known = [Bins.from_dict(item) for item in sample.profile["features"]]
    training = [np.asarray(item["counts"], float) for item in sample.profile["features"]]
    enough = sample.rows >= settings.min_rows
    adjusted: list[float | None] = [None] * len(known)
    if known and enough:
        p_values = [_p_value(one, other) for one, other in zip(training, sample.counts, strict=True)]
        adjusted = false_discovery_control(p_values, method="by").tolist()
    features = []
    for bins, one, other, p_value in zip(known, training, sample.counts, adjusted, strict=True):
        distance = _distance(one, other)
        verdict = _verdict(p_value, distance, settings)
        unseen = float(_shares(other)[list(bins.unseen)].sum())
        shares = tuple(_shares(one).tolist()), tuple(_shares(other).tolist())
        features.append(FeatureDrift(bins.name, distance, p_value, unseen, verdict, *shares, bins))
    return DriftResult(sample, tuple(sorted(features, key=lambda feature: (-feature.distance, feature.name))), settings)


def _verdict(p_value: float | None, distance: float, settings: Drift) -> DriftVerdict:
    if p_value is None:
        return DriftVerdict.CANNOT_TELL
    drifted = p_value <= settings.false_alarm_rate and distance >= settings.min_distance
    return DriftVerdict.DRIFTED if drifted else DriftVerdict.SAME


def _p_value(training: np.ndarray[Any, Any], requests: np.ndarray[Any, Any]) -> float:
    """Of the hypothesis that both are drawn from one distribution; 1 if both are in one bin."""
    from scipy.stats import chi2_contingency

    table = np.stack([training, requests])
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    rare = (expected < _FEWEST_EXPECTED).any(axis=0)
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0


def _distance(training: np.ndarray[Any, Any], requests: np.ndarray[Any, Any]) -> float:
    from scipy.spatial.distance import jensenshannon

    return float(jensenshannon(_shares(training), _shares(requests), base=2)) if requests.sum() else 0.0


def _shares(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return counts / counts.sum() if counts.sum() else counts
