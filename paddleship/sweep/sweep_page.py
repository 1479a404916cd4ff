"""The report of a sweep: its table of variants, its picture, and its page in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.plots import variants as chart
from paddleship.reports import grouped_findings, units
from paddleship.reports.figures import column, share
from paddleship.reports.markdown import text
from paddleship.reports.report import Report
from paddleship.reports.verdict import Verdict
from paddleship.shipped.computing.files import write_text
from paddleship.sweep.choice import Choice
from paddleship.sweep.unmet import NOT_VALID
from paddleship.sweep.variant import DONE, Figures, Variant

COLUMNS = ("", "variant", "params", "outcome", "score", "time of a request", "speedup over its eager", "size MB", "winner")
PICTURE = "sweep/pareto.png"
_PAGE = "sweep.md"
_BEST, _FRONT = "★", "·"
_ONE_HOST = (
    "Two p50 differ only where their intervals are apart; a speedup is over the variant's own eager model, measured in turns with it."
)


def report(name: str, variants: Sequence[Variant], choice: Choice, folder: Path) -> Report:
    """Write the page and the picture into `folder`, and return the report."""
    done = {variant.number: variant.figures for variant in variants if variant.figures}
    pictures = [_draw({one.number: one for one in variants}, done, choice, folder)] if _drawable(done) else []
    write_text(folder / _PAGE, markdown(name, variants, choice))
    metrics: dict[str, float | int] = {"variants": len(variants), "variants_done": len(done), "variants_in_front": len(choice.front)}
    if choice.best is not None:
        best = done[choice.best]
        metrics |= {"best_variant": choice.best}
        metrics |= {"best_p50_ms": best.p50_ms.value, "best_speedup": best.speedup.value} if best.valid else {}
        metrics |= {"best_size_bytes": best.size_bytes} | ({f"best_{best.score_name}": best.score.value} if best.score else {})
    return Report(
        stage="sweep",
        headline=headline(variants, choice),
        metrics=metrics,
        verdict=Verdict(checks=[choice.check]),
        facts={"page": _PAGE, "sweep": name, "reason": choice.reason, "variants": [one.model_dump(mode="json") for one in variants]},
        pictures=pictures,
    )


def headline(variants: Sequence[Variant], choice: Choice) -> str:
    """The chosen variant with its figures, and why."""
    if choice.best is None:
        return choice.reason
    best = next(variant for variant in variants if variant.number == choice.best)
    figures = best.figures
    if figures is None:
        return choice.reason
    tested = f" (test {share(figures.test_score)})" if figures.test_score is not None else ""
    parts = [f"{figures.score_name.replace('_', ' ')} {share(figures.score.value)}{tested}"] if figures.score else []
    doubt = "" if figures.valid else f" ({NOT_VALID})"
    parts += [f"{units.duration(figures.p50_ms.value)} for a request{doubt}", units.size(figures.size_bytes)]
    return f"variant {best.number} ({best.label}) is chosen, with {', '.join(parts)}: {choice.reason}"


def cells(variants: Sequence[Variant], choice: Choice) -> list[tuple[str, ...]]:
    """One row of COLUMNS for each variant: the chosen one, those that no other one beats, the rest, and those that failed."""
    sized = {one.number: one.figures.size_bytes / 1e6 for one in variants if one.figures}
    sizes = dict(zip(sized, column([*sized.values()], 3), strict=True))
    return [_cells(variant, choice, sizes.get(variant.number, "")) for variant in _ranked(variants, choice)]


def _ranked(variants: Sequence[Variant], choice: Choice) -> list[Variant]:
    return sorted(variants, key=lambda one: (one.number != choice.best, one.number not in choice.front, one.figures is None, one.number))


def notes(variants: Sequence[Variant]) -> list[str]:
    """Which figures of a sweep can be compared, and which cannot."""
    figures = [variant.figures for variant in variants if variant.figures]
    if not figures:
        return []
    hosts = sorted({one.measured_on for one in figures})
    one_host = f"Measured on {hosts[0] or 'this machine'}, one variant after the other. {_ONE_HOST}"
    interval = ", with the exact 95% interval of a share" if figures[0].score_has_interval else ""
    paired = all(one.row_scores for one in figures)
    counts = "interval of the paired difference does not hold 0" if paired else "intervals are apart" if interval else ""
    apart = f"Two scores differ only where the {counts}" if counts else "There is no interval, so any difference of two scores counts"
    texts = [
        one_host if len(hosts) == 1 else f"Measured on several machines: {'; '.join(hosts)}. Two p50 are compared only within one.",
        f"Score: {figures[0].score_name} of the eager model on all validation rows{interval}. {apart}. "
        "The test rows had no part in the choice.",
        f"Size: of {figures[0].size_of}.",
    ]
    if len({one.data_sha256 for one in figures}) > 1:
        texts.append("The variants do not have the same rows, so their scores are compared only where they do.")
    if doubtful := [str(variant.number) for variant in variants if variant.figures and not variant.figures.valid]:
        texts.append(f"The machine was not free during the benchmark of {', '.join(doubtful)}: their latencies are not compared.")
    return texts


def warnings(variants: Sequence[Variant]) -> list[str]:
    """What the variants that are done were warned of, a line for each kind."""
    findings = {f"variant {one.number}": one.ended.findings for one in variants if one.ended and one.figures}
    return [f"Warning: {line}" for line in grouped_findings.lines(findings, everyone="all variants")]


def markdown(name: str, variants: Sequence[Variant], choice: Choice) -> str:
    """The page of a sweep."""
    lines = [f"# {name}", "", f"**{text(headline(variants, choice))}**", ""]
    lines += map(_item, _ranked(variants, choice), cells(variants, choice))
    lines += [
        "",
        f"{_BEST} chosen, {_FRONT} no other variant beats it.",
        "",
        *(f"* {text(note)}" for note in [*warnings(variants), *notes(variants)]),
    ]
    return "\n".join(lines) + "\n"


def _item(variant: Variant, cells: tuple[str, ...]) -> str:
    """A variant as a line of a list, which no page cuts off as it does cells of a table."""
    mark, number, label, outcome, score, p50, speedup, size, winner = cells
    measured = f": score {score}, {p50} for a request, {speedup} its eager, {size} MB, {winner}" if variant.figures else ""
    ended = "" if outcome == DONE else f". {outcome[0].upper()}{outcome[1:]}"
    return text(f"* {mark}{' ' * bool(mark)}variant {number} ({label}){measured}{ended}")


def _cells(variant: Variant, choice: Choice, size: str) -> tuple[str, ...]:
    mark = _BEST if variant.number == choice.best else _FRONT if variant.number in choice.front else ""
    figures, ended = variant.figures, variant.ended
    if figures is None:
        outcome = f"{ended.outcome}: {ended.reason}" if ended else "not run"
        return (mark, str(variant.number), variant.label, outcome, "–", "–", "–", "–", "–")
    score = "–"
    if figures.score:
        score = _interval(figures.score, share) if figures.score_has_interval else share(figures.score.value)
    outcome = choice.refused.get(variant.number, DONE if figures.valid else f"{DONE}, machine not free")
    p50 = _interval(figures.p50_ms, units.duration)
    return (mark, str(variant.number), variant.label, outcome, score, p50, _times(figures), size, figures.winner)


def _interval(bounds: tuple[float, float, float], text: Callable[[float], str]) -> str:
    value, low, high = map(text, bounds)
    return f"{value} ({low} to {high})"


def _times(figures: Figures) -> str:
    return f"{figures.speedup.value:.2f}× ({figures.speedup.low:.2f} to {figures.speedup.high:.2f})"


def _drawable(done: Mapping[int, Figures]) -> bool:
    return any(figures.score for figures in done.values())


def _draw(variants: Mapping[int, Variant], done: Mapping[int, Figures], choice: Choice, folder: Path) -> str:
    rows: dict[int, dict[str, Any]] = {}
    for number, figures in done.items():
        if figures.score:
            rows[number] = {
                "label": variants[number].label,
                "size_bytes": figures.size_bytes,
                **dict(zip(("p50_ms", "p50_low", "p50_high"), figures.p50_ms, strict=True)),
                **dict(zip(("score", "score_low", "score_high"), figures.score, strict=True)),
            }
    one = next(iter(done.values()))
    best = choice.best if choice.best in rows else None
    return chart.pareto(
        rows,
        best,
        choice.front,
        folder,
        PICTURE,
        reason=choice.reason,
        score=one.score_name.replace("_", " "),
        size=one.size_of,
        ends=one.score_range,
    )
