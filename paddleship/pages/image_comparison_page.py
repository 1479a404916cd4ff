"""The page that compares two images: which is better, what cannot be trusted, the figures, and rows that they answer differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddleship.pages import charts, html, image_comparison
from paddleship.pages.charts import Point
from paddleship.promotion.image_comparison import ImageComparison
from paddleship.statistics.estimates import Difference, Interval


def of(compared: ImageComparison) -> str:
    return html.render(
        "images.html.j2",
        name="Comparison of " + " and ".join(one.reference for one in compared.images),
        answer=image_comparison.answer(compared),
        decisions=image_comparison.decisions(compared),
        trust=image_comparison.trust(compared),
        doubts=image_comparison.doubts(compared),
        facts=image_comparison.facts(compared),
        images=compared.images,
        examples=compared.answers.examples,
        pictures={example["number"]: _pictures(compared, example) for example in compared.answers.examples},
        flips=compared.answers.flips,
        chart=_chart(compared),
        host=compared.host,
    )


def _pictures(compared: ImageComparison, example: Mapping[str, Any]) -> dict[str, str]:
    """The pictures among the inputs of an example, as addresses by column."""
    values = {name: compared.rows.columns[name][example["number"]] for name in example["row"]}
    made = {name: html.thumbnail(value) for name, value in values.items() if isinstance(value, bytes)}
    return {name: address for name, address in made.items() if address}


def _chart(compared: ImageComparison) -> Any:
    """Score against latency; None without both. The score of the second has the interval of the paired difference."""
    first, second, drop = compared.p50_ms(0), compared.p50_ms(1), compared.answers.drop
    before, after = compared.answers.champion, compared.answers.challenger
    if first is None or second is None or drop is None or before is None or after is None:
        return None
    better = [{*compared.verdicts.values()} - {Difference.CANNOT_TELL} == {verdict} for verdict in (Difference.WORSE, Difference.BETTER)]
    points = [
        Point(compared.images[0].name, first, Interval(before, before, before), better[0]),
        Point(compared.images[1].name, second, Interval(after, before - drop.high, before - drop.low), better[1]),
    ]
    score = f"{compared.answers.metric.replace('_', ' ')} (interval: paired difference)"
    return html.svg(charts.score_against_latency(points, title="Score and latency of both images", score=score))
