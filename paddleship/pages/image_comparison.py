"""Which of two images is better: in a sentence, what of it cannot be trusted, and the figures side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paddleship.promotion.image_comparison import LATENCY, SCORE, ComparedImage, ImageComparison
from paddleship.reports import units
from paddleship.reports.figures import change, shares
from paddleship.statistics.estimates import Difference, Interval

_SHORT = 12  # characters of a digest
_DISTURBED = 1.1  # two containers of one image on an idle machine differ by a few hundredths
_OBJECTIVES = (SCORE, LATENCY)


class Fact(NamedTuple):
    """One row of the table: what it is, the figure of each image, and how they differ."""

    what: str
    first: str
    second: str
    difference: str = ""


def answer(compared: ImageComparison) -> str:
    """Which image is better, by how much, how sure and at what cost; or that it cannot be told, and what would tell."""
    second = compared.images[1]
    leaders = {objective: leader for objective in _OBJECTIVES if (leader := _leader(compared, objective))}
    even = [_even(compared, objective) for objective in _OBJECTIVES if objective not in leaders]
    if not leaders:
        return f"It cannot be told which is better: {'; '.join(even)}. {_would_tell(compared)}. {_costs(compared, second, second.name)}"
    parts = [(leader.name, _advantage(compared, objective, leader)) for objective, leader in leaders.items()]
    if len({name for name, _ in parts}) == 1:
        best = next(iter(leaders.values()))
        reasons = "; ".join([" and ".join(advantage for _, advantage in parts), *even])
        claim = "better" if SCORE in leaders else "faster"
        return f"{best.name} is {claim}: {reasons}. {_costs(compared, best)}"
    each = "; ".join(f"{name} has {advantage}" for name, advantage in parts)
    return f"Neither is better in everything: {each}. {_costs(compared, second, second.name)}"


def trust(compared: ImageComparison) -> str:
    """What both were asked."""
    answers = compared.answers
    rows = (
        f"{answers.rows:,} rows" if answers.rows == compared.total_rows else f"the first {answers.rows:,} of {compared.total_rows:,} rows"
    )
    labels = "with" if answers.labelled else "without"
    built = [one.name for one in compared.images if one.packaged]
    note = f"; the image of {' and that of '.join(built)} was built here, with a server that joins no requests" if built else ""
    return f"Both answered {rows} of {compared.source} {labels} labels, one by one, in containers with equal limits{note}"


def doubts(compared: ImageComparison) -> list[str]:
    """Why parts of the comparison cannot be trusted."""
    lines = []
    if not compared.answers.labelled:
        lines.append("the rows have no labels, so nothing says which image answers right")
    elif compared.answers.drop is None:
        lines.append(compared.answers.scores())
    if compared.unknown_training and compared.answers.drop is not None:
        lines.append(f"whether {_listed(compared.unknown_training)} learned from these rows is not known, and then its score is too high")
    if compared.latency.failures:
        lines.append(f"latency was not measured: {compared.latency.failures[0]}")
    if (noise := compared.latency.aa_ratio) and noise.reach > _DISTURBED:
        lines.append(
            f"the machine was not idle: one image differs from itself by up to {units.times(noise.reach)}, which hides what is less"
        )
    return lines


def decisions(compared: ImageComparison) -> str:
    """How often the images decide differently; empty where nothing is decided."""
    rate, flips, rows = compared.answers.flip_rate, compared.answers.flips, compared.answers.rows
    if rate is None:
        return ""
    interval = f"95% interval {rate.low:.1%} to {rate.high:.1%}"
    return f"They decide differently in {flips:,} of {rows:,} rows ({rate.value:.1%}, {interval})"


def facts(compared: ImageComparison) -> list[Fact]:
    """All figures of both images."""
    first, second = compared.images
    return [
        *_score_fact(compared),
        *_latency_fact(compared),
        _size_fact("size", first.size_bytes, second.size_bytes),
        Fact("start to first answer", _starts(first), _starts(second), f"{units.three(second.start_s / first.start_s)}×"),
        _size_fact("memory after the first answer", first.idle_bytes, second.idle_bytes),
        _size_fact("memory after all rows", first.loaded_bytes, second.loaded_bytes),
        *_identity(first, second),
    ]


def _leader(compared: ImageComparison, objective: str) -> ComparedImage | None:
    """The image that is measurably better in an objective."""
    verdict = compared.verdicts[objective]
    return None if verdict == Difference.CANNOT_TELL else compared.images[verdict == Difference.BETTER]


def _advantage(compared: ImageComparison, objective: str, leader: ComparedImage) -> str:
    """By how much the leader is better, and how sure that is."""
    second = leader is compared.images[1]
    if objective == SCORE and (drop := compared.answers.drop):
        own, theirs = _scores(compared) if not second else _scores(compared)[::-1]
        gain = Interval(-drop.value, -drop.high, -drop.low) if second else drop
        return f"{_metric(compared)} {own} against {theirs} ({change(*gain)})"
    speedup = compared.latency.speedup or Interval(1, 1, 1)
    gain = speedup if second else Interval(1 / speedup.value, 1 / speedup.high, 1 / speedup.low)
    times = [units.duration(one.value) for index in ((1, 0) if second else (0, 1)) if (one := compared.p50_ms(index))]
    return f"{' against '.join(times)} for a request ({units.times(gain.value)} as fast, 95% interval {_range(gain)})"


def _even(compared: ImageComparison, objective: str) -> str:
    """Why no image leads in an objective."""
    if objective == LATENCY:
        speedup, noise = compared.latency.speedup, compared.latency.aa_ratio
        if speedup is None or noise is None:
            return "latency was not measured"
        return f"no difference in latency shows ({_range(speedup)}; one image against itself: up to {units.times(noise.reach)})"
    drop, metric = compared.answers.drop, _metric(compared)
    if drop is None:
        return "which one answers right more often is not known"
    own, theirs = _scores(compared)
    if own == theirs and drop.low == drop.high:
        return f"both have the {metric} {own}"
    return f"no difference in {metric} shows ({own} and {theirs}, {change(-drop.value, -drop.high, -drop.low)})"


def _would_tell(compared: ImageComparison) -> str:
    rows = "More rows with labels (`--rows`)" if compared.answers.labelled else "Rows with labels (`--rows`)"
    return f"{rows}, or a longer measurement on an idle machine (`--seconds`), would tell"


def _costs(compared: ImageComparison, one: ComparedImage, name: str = "It") -> str:
    """What an image takes, beside the other one."""
    other = next(image for image in compared.images if image is not one)
    size, memory, start = (_beside(of(one), of(other)) for of in (_size, _loaded, _start))
    return f"{name} has a size of {size}, uses {memory} of memory, and starts in {start}."


def _beside(own: str, other: str) -> str:
    return f"{own} (both)" if own == other else f"{own} (against {other})"


def _size(one: ComparedImage) -> str:
    return units.size(one.size_bytes)


def _loaded(one: ComparedImage) -> str:
    return units.size(one.loaded_bytes)


def _start(one: ComparedImage) -> str:
    return units.duration(1000 * one.start_s)


def _score_fact(compared: ImageComparison) -> list[Fact]:
    drop = compared.answers.drop
    if drop is None:
        return []
    gain = f"{change(-drop.value, -drop.high, -drop.low)}: {compared.verdicts[SCORE]}"
    first, second = _scores(compared)
    return [Fact(_metric(compared), first, second, gain)]


def _latency_fact(compared: ImageComparison) -> list[Fact]:
    times, speedup = [compared.p50_ms(index) for index in (0, 1)], compared.latency.speedup
    if times[0] is None or times[1] is None or speedup is None:
        return []
    first, second = (f"{units.duration(one.value)} ({units.duration(one.low)} to {units.duration(one.high)})" for one in times if one)
    change = f"{units.times(speedup.value)} as fast (95% interval {_range(speedup)}): {compared.verdicts[LATENCY]}"
    return [Fact("time of a request", first, second, change)]


def _size_fact(what: str, first: int, second: int) -> Fact:
    texts = units.size(first), units.size(second)
    return Fact(what, *texts, "the same" if texts[0] == texts[1] else _bytes(second - first))


def _identity(first: ComparedImage, second: ComparedImage) -> list[Fact]:
    rows = {
        "model": [one.candidate.model for one in (first, second)],
        "runtime": [f"{one.candidate.runtime}, {one.candidate.precision}" for one in (first, second)],
        "candidate": [one.candidate.digest[:_SHORT] for one in (first, second)],
        "weights": [one.candidate.weights_sha256[:_SHORT] for one in (first, second)],
        "image": [one.reference for one in (first, second)],
        "image id": [one.image_id.removeprefix("sha256:")[:_SHORT] for one in (first, second)],
    }
    return [Fact(what, one, other, "the same" if one == other else "") for what, (one, other) in rows.items()]


def _starts(one: ComparedImage) -> str:
    low, high = (units.duration(1000 * value) for value in (min(one.starts_s), max(one.starts_s)))
    return f"{_start(one)} ({low} to {high}, {len(one.starts_s)} starts)"


def _scores(compared: ImageComparison) -> tuple[str, str]:
    return shares(compared.answers.champion or 0.0, compared.answers.challenger or 0.0)


def _metric(compared: ImageComparison) -> str:
    return compared.answers.metric.replace("_", " ")


def _bytes(count: int) -> str:
    return f"{'+' if count > 0 else '−'}{units.size(abs(count))}"


def _range(interval: Interval) -> str:
    return f"{units.times(interval.low)} to {units.times(interval.high)}"


def _listed(names: Sequence[str]) -> str:
    return " or ".join(names)
