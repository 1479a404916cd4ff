"""`paddleship runs compare`: which run is better, and the rows in which two of them differ."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddleship.cli.run_pair import RunPair
from paddleship.cli.run_tables import FACTS, IMAGE, P50, SPEEDUP, change, outcome, params_that_differ, table_of
from paddleship.errors import BadInput
from paddleship.pages import comparison, comparison_page
from paddleship.pages.comparison import Compared
from paddleship.reports.figures import distinct
from paddleship.reports.report import Report
from paddleship.shipped.computing.files import write_text
from paddleship.statistics.estimates import Difference
from paddleship.sweep import choice, space
from paddleship.sweep.objectives import OBJECTIVES, cost, difference_text, in_parentheses, incomparable, values
from paddleship.sweep.variant import Figures
from paddleship.tracking import client
from paddleship.tracking.runs import Run

_MEASURED, _SERVED = "benchmark/", "accept/"  # metrics that depend on the machine and its other load
_SCORED = "train/"  # metrics that depend on the rows
PROVEN = "done"
_MOST_PARAMS, _LONGEST_VALUE = 2, 24  # that name a run in a comparison; the latter in characters
_FEWEST, _MOST_VARIANTS = 2, 6  # that a command which compares them names
Row = tuple[str, str, str, str]


def table(pair: RunPair, *, everything: bool) -> Any:
    """The rows that differ: outcome, winner, scores, speed, params, facts, other figures. `everything` adds those that are equal."""
    rows = _rows(pair)
    equal = [row for row in rows if row[1] == row[2]]
    shown = [row for row in rows if row[1] != row[2]] + (equal if everything else [])
    return table_of(("", pair.one.name, pair.other.name, "change"), shown)


def equal_rows(pair: RunPair) -> int:
    return sum(row[1] == row[2] for row in _rows(pair))


def _rows(pair: RunPair) -> list[Row]:
    """All rows. A figure that does not compare has no ratio, and the reason if it is one of the first.

    Figures of the benchmark, and of the server right after it, do not compare if the latencies do not; those of the training do not if
    the scores do not.
    """
    one, other, loaded = pair.one, pair.other, pair.latencies_differ
    unlike = {_MEASURED: loaded, _SERVED: loaded, _SCORED: pair.scores_differ}
    both = sorted(one.metrics.keys() & other.metrics.keys())
    first = [key for key in (*client.scores(one.metrics), SPEEDUP, P50, IMAGE) if key in both]

    def figure(key: str) -> Row:
        before, after = one.metrics[key], other.metrics[key]
        reason = next((why for prefix, why in unlike.items() if why and key.startswith(prefix)), "")
        text = change(key, before, after) if not reason else reason if key in first else ""
        return key, *distinct(before, after), text

    rows = [("outcome", outcome(one), outcome(other), ""), ("winner", one.tags.get("winner", "–"), other.tags.get("winner", "–"), "")]
    rows += map(figure, first)
    rows += [(*row, "") for row in params_that_differ(one, other)]
    rows += [(key, one.tags.get(key, "–"), other.tags.get(key, "–"), "") for key in (*FACTS, "image")]
    return [*rows, *(figure(key) for key in both if key not in first)]


def conclusion(pair: RunPair) -> list[str]:
    """Which run is better in score, latency and size, as a sweep decides it, and where neither is measurably better."""
    one, other, first, second = pair.one, pair.other, pair.first, pair.second
    lines = [f"{run.name} did not pass ({outcome(run)})" for run in (one, other) if run.outcome != PROVEN]
    if first is None or second is None:
        without = " and ".join(run.name for run, figures in ((one, first), (other, second)) if figures is None)
        return [*lines, f"cannot tell which is better: {without} measured no winner"]
    for objective in OBJECTIVES:
        lines.append(_judged(objective, pair, first, second))
    return [*lines, "nothing else was judged"]


def answer(runs: Sequence[Run], reports: Sequence[Sequence[Report]], names: Sequence[str] = ()) -> list[str]:
    """Which run is better, what cannot be trusted, what the runs were warned of, and why scores are not compared row by row.

    Without `names`, runs are called by what differs between them.
    """
    compared = _compared(runs, reports, names or _labels(runs))
    warnings = (f"warning: {line}" for line in comparison.warnings(compared))
    return [comparison.answer(compared), *comparison.doubts(compared), *warnings, *comparison.notes(compared)]


def write_page(path: Path, runs: Sequence[Run], reports: Sequence[Sequence[Report]]) -> None:
    """Write the page that compares the runs. Raises BadInput if the file cannot be written."""
    try:
        write_text(path, comparison_page.of(_compared(runs, reports, _labels(runs))))
    except OSError as error:
        raise BadInput(f"--html {str(path)!r} cannot be written ({error.strerror}): give another file") from None


def require_no_sweep(chosen: Sequence[Run], known: Sequence[Run]) -> None:
    """Raise BadInput if one is the run of a sweep, which measured nothing itself; the error names the runs of its variants."""
    for run in chosen:
        if run.is_sweep:
            variants = [one.ending for one in reversed(known) if one.tags.get("sweep") == run.tags["sweep"] and not one.is_sweep]
            raise BadInput(f"{run.name!r} is the parent run of a sweep, which measured no candidate itself: {_next_step(variants)}")


def _next_step(variants: Sequence[str]) -> str:
    """The command that compares the variants of a sweep."""
    if len(variants) < _FEWEST:
        return "compare runs of its variants, which `paddleship runs list` shows"
    command = f"`paddleship runs compare {shlex.join(variants[:_MOST_VARIANTS])}`"
    more = f" (the first {_MOST_VARIANTS} of {len(variants)}; sweep.html compares all)" if len(variants) > _MOST_VARIANTS else ""
    return f"compare its variants with {command}{more}"


def _compared(runs: Sequence[Run], reports: Sequence[Sequence[Report]], names: Sequence[str]) -> list[Compared]:
    """The runs as pages compare them; one that did not pass, with its reason."""
    failures = [None if run.outcome == PROVEN else run.tags.get("failure", run.outcome) for run in runs]
    rows = zip(names, runs, reports, failures, strict=True)
    return [
        Compared.of(label, of_run, run.params, failure=failure, sweep=run.tags.get("sweep", "")) for label, run, of_run, failure in rows
    ]


def _labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: what differs between them, and the end of its own name where that does not tell them apart.

    No value is cut: a param with a long one is in no name.
    """
    params = [{key: value for key, value in run.params.items() if key != "name"} for run in runs]
    differing = sorted({key for one in params for key in one if len({other.get(key) for other in params}) > 1})
    short = [key for key in differing if all(len(one.get(key, "–")) <= _LONGEST_VALUE for one in params)][:_MOST_PARAMS]
    shown = [space.label({key: one.get(key, "–") for key in short}) for one in params]
    if all(shown) and len({*shown}) == len(shown):
        return shown
    endings = [run.ending for run in runs]
    labels = [f"{text} ({ending})" if text else ending for text, ending in zip(shown, endings, strict=True)]
    return labels if len({*labels}) == len(labels) else [f"{label}, {run.run_id[:6]}" for label, run in zip(labels, runs, strict=True)]


def _judged(objective: str, pair: RunPair, first: Figures, second: Figures) -> str:
    if trouble := _incomparable(objective, pair, first, second):
        return f"{objective}: cannot tell, {trouble}"
    before, after = values(objective, first, second)
    what = {"score": first.score_name, "latency": "p50", "size": str(first.size_of)}[objective]
    difference = choice.compare(objective, first, second)
    if difference == Difference.CANNOT_TELL:
        close = (
            "equal"
            if before == after
            else f"too close{in_parentheses(difference_text(objective, *sorted((first, second), key=cost(objective))))}"
        )
        return f"{objective}: cannot tell, {what} {before} and {after} are {close}"
    better, worse = ((pair.one, before, first), (pair.other, after, second))[:: 1 if difference == Difference.BETTER else -1]
    interval = in_parentheses(difference_text(objective, better[2], worse[2]))
    return f"{objective}: {better[0].name} is better, {what} {better[1]} against {worse[1]}{interval}"


def _incomparable(objective: str, pair: RunPair, first: Figures, second: Figures) -> str:
    """Why two figures do not compare; empty if they do."""
    if objective == "latency" and (reason := pair.benchmarks_differ):
        return reason
    return incomparable(objective, first, second)
