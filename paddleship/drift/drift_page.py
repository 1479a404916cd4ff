"""What a comparison of requests and training rows says, for a person."""

from __future__ import annotations

from paddleship.drift.feature_comparison import DriftResult, FeatureDrift
from paddleship.reports import figures

HEAD = ("feature", "distance", "limit", "p-value", "unseen values", "verdict")
_NOT_WATCHED = (
    "Not watched: labels and accuracy, the model's answers, relations between features, meaning and order of words, refused requests."
)


def rows(result: DriftResult) -> list[tuple[str, ...]]:
    """A row of the table for each feature, under HEAD."""
    limit = result.settings.min_distance
    return [
        (
            feature.name,
            figures.beside(feature.distance, limit),
            figures.limit(limit),
            _p_value(feature),
            f"{feature.unseen_share:.1%}",
            str(feature.verdict),
        )
        for feature in result.features
    ]


def _p_value(feature: FeatureDrift) -> str:
    """A dash where there are too few requests for a test."""
    return "–" if feature.p_value is None else f"{feature.p_value:.1g}"


def not_watched(result: DriftResult) -> list[str]:
    """Lines about what no feature shows."""
    more = [f"Also not watched, because there are too many columns: {', '.join(result.left_out)}."] if result.left_out else []
    return [_NOT_WATCHED, *more]


def markdown(result: DriftResult, *, picture: str | None = None) -> str:
    """The report of a comparison."""
    sample = result.sample
    lines = [f"**{result.headline[0].upper()}{result.headline[1:]}.**", ""]
    lines += [f"Candidate `{sample.candidate}` ({sample.candidate_digest[:12]}) of `{sample.model}`, last {result.settings.hours} h, "]
    lines += [f"against {sample.profile['rows']:,} training rows.", "", f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows(result)]
    lines += ["", *([f"![distributions]({picture})", ""] if picture else []), *not_watched(result)]
    return "\n".join(lines) + "\n"
