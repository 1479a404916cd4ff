"""Which of several runs is better: in a sentence, and as a row for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from paddleship.pages import unpaired_scores
from paddleship.pages.first_screen import NOT_VALID, FirstScreen, of_run
from paddleship.reports import grouped_findings
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.statistics.estimates import Difference
from paddleship.sweep import choice
from paddleship.sweep.objectives import (
    BY_VALUE,
    OBJECTIVES,
    against_next,
    compared,
    cost,
    difference_text,
    in_parentheses,
    incomparable,
    listed,
    only_by_value,
    values,
)
from paddleship.sweep.variant import Figures

_CLOSE_ADVICE = {
    "score": "more held-out rows would tell, or other seeds",
    "latency": "`paddleship images compare` measures two images in turns, and can tell smaller differences",
    "size": "",
}
_NOT_COMPARED_ADVICE = {
    "score": "scores of one metric on the same rows would tell",
    "latency": "`paddleship images compare` measures two images in turns, on one machine",
    "size": "`package` gives each run an image, whose sizes compare",
}
_DISTURBED = "disturbed"  # the kind of finding that a benchmark that is not valid has
TASK = ("data.task", "data.classes", "data.label")  # the params whose scores are no answers to one question
_CANNOT_TELL = "It cannot be told which is better"


@dataclass(frozen=True)
class Compared:
    """One run: its name, what it measured if it measured anything, its first screen, its params by path, and its errors and warnings."""

    name: str
    figures: Figures | None
    screen: FirstScreen
    params: Mapping[str, str]
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls, name: str, reports: Sequence[Report], params: Mapping[str, str], *, failure: str | None = None, sweep: str = ""
    ) -> Compared:
        findings = tuple(finding for report in reports for finding in report.serious())
        return cls(name, Figures.of(reports, sweep=sweep), of_run(reports, failure=failure), params, findings)


def answer(runs: Sequence[Compared]) -> str:
    """Which run is better and in what, or that it cannot be told and what would tell."""
    usable = _usable(runs)
    left_out = [run.name for run in runs if run.name not in usable]
    note = f" {listed(left_out)} cannot be chosen." if left_out else ""
    if not usable:
        return "None of these runs can be chosen: each failed, or measured no candidate."
    if len(usable) == 1:
        return f"{next(iter(usable))} is the only one that can be chosen.{note}"
    if tasks := _tasks(runs):
        return f"None of these runs is better, because they answer different questions: {tasks}.{note}"
    winner = best(runs)
    return (_better(winner, usable) if winner else _undecided(usable)) + note


def best(runs: Sequence[Compared]) -> str | None:
    """The run that beats each other one that can be chosen; None if there is none."""
    usable = {} if _tasks(runs) else _usable(runs)
    return next((name for name, one in usable.items() if all(name == other or choice.beats(one, usable[other]) for other in usable)), None)


def _tasks(runs: Sequence[Compared]) -> str:
    """The params in which runs that can be chosen have different tasks; empty if they have one."""
    chosen = _usable(runs)
    differ = differing([run for run in runs if run.name in chosen])
    return ", ".join(f"{path} is {listed([*dict.fromkeys(differ[path])])}" for path in TASK if path in differ)


def differing(runs: Sequence[Compared]) -> dict[str, list[str]]:
    """The params that differ between the runs: path → the value of each run."""
    paths = sorted({path for run in runs for path in run.params})
    values = {path: [run.params.get(path, "–") for run in runs] for path in paths}
    return {path: row for path, row in values.items() if len(set(row)) > 1}


def doubts(runs: Sequence[Compared]) -> list[str]:
    """Why parts of the comparison cannot be trusted: runs that failed, or whose speed is not valid."""
    lines = []
    if invalid := [run.name for run in runs if run.figures and run.screen.usable and not run.figures.valid]:
        lines.append(f"{listed(invalid)}: {NOT_VALID}, so the latency is not compared")
    lines += [f"{run.name}: {run.screen.trust}" for run in runs if not run.screen.usable]
    lines += [f"{run.name}: it measured no candidate" for run in runs if run.screen.usable and not run.figures]
    hosts = {run.figures.measured_on for run in runs if run.figures}
    if len(hosts) > 1:
        lines.append(f"the runs were measured on {len(hosts)} machines, so latencies are compared only within one")
    pairs = combinations([run.figures for run in runs if run.figures], 2)
    others = {why for one, other in pairs for what in ("score", "size") if (why := incomparable(what, one, other))}
    lines += [f"{why}, and not compared there" for why in sorted(others)]
    free = [run.figures for run in runs if run.figures and run.figures.valid]
    drifts = dict.fromkeys(
        why for one, other in combinations(free, 2) if one.measured_on == other.measured_on and (why := incomparable("latency", one, other))
    )
    return [*lines, *(f"latency is not compared everywhere: {why}" for why in drifts)]


def warnings(runs: Sequence[Compared]) -> list[str]:
    """What the runs that can be chosen were warned of, a line for each kind; a disturbed benchmark is one of the doubts instead."""
    chosen = _usable(runs)
    everyone = "all runs" if len(chosen) == len(runs) else "all runs that can be chosen"
    return grouped_findings.lines({run.name: _not_doubted(run) for run in runs if run.name in chosen}, everyone=everyone)


def _not_doubted(run: Compared) -> list[Finding]:
    return [finding for finding in run.findings if finding.kind != _DISTURBED or not run.figures or run.figures.valid]


def notes(runs: Sequence[Compared]) -> list[str]:
    """Why some scores are not compared row by row, and what would make that possible."""
    return [] if _tasks(runs) else unpaired_scores.notes(_usable(runs))


def _usable(runs: Sequence[Compared]) -> dict[str, Figures]:
    """What those runs measured that can be chosen, by name."""
    return {run.name: run.figures for run in runs if run.figures and run.screen.usable}


def _better(best: str, usable: Mapping[str, Figures]) -> str:
    """The run that beats each other one, with the objectives in which it does, against the next best; and what is known of the others."""
    others = {name: figures for name, figures in usable.items() if name != best}
    better = [objective for objective in OBJECTIVES if _in(objective, usable[best], others.values())]
    by_value = any(_only_by_value(usable[best], other) for other in others.values())
    parts = [_figures(objective, usable[best], others, with_difference=not by_value) for objective in better]
    rest = [_state(objective, usable) for objective in OBJECTIVES if objective not in better]
    how = f" {BY_VALUE}" if by_value else ""
    return f"{best} is better{how}: {'; '.join(parts) or 'each other one is worse in something'}.{''.join(f' {one}.' for one in rest)}"


def _only_by_value(one: Figures, other: Figures) -> bool:
    """Whether one run is better than another by nothing but the value of a score that has no interval."""
    return only_by_value(one, other) and not any(choice.compare(what, one, other) == Difference.BETTER for what in ("latency", "size"))


def _undecided(usable: Mapping[str, Figures]) -> str:
    """That no run beats all others: because too little can be told apart, or because each is worse than another one in something."""
    parts = {objective: part for objective in OBJECTIVES if (part := _best_in(objective, usable))}
    rest = [objective for objective in OBJECTIVES if objective not in parts]
    states = "".join(f" {_state(objective, usable)}." for objective in rest)
    advice = "; ".join(filter(None, (_advice(objective, usable, told=objective in parts) for objective in OBJECTIVES)))
    advice = f" {advice[0].upper()}{advice[1:]}." if advice else ""
    if not parts:
        return f"{_CANNOT_TELL}.{states}{advice}"
    verdict = "No run is better in everything" if all(_is_worse(one, usable.values()) for one in usable.values()) else _CANNOT_TELL
    return f"{verdict}: {'; '.join(parts.values())}.{states}{advice}"


def _is_worse(one: Figures, runs: Iterable[Figures]) -> bool:
    """Whether a run is measurably worse than another one in something."""
    return any(choice.compare(objective, one, other) == Difference.WORSE for other in runs for objective in OBJECTIVES)


def _advice(objective: str, usable: Mapping[str, Figures], *, told: bool) -> str:
    """What would tell more about an objective; empty if it is told, or no measurement would."""
    if any(not _have_no_score(objective, pair) and incomparable(objective, *pair) for pair in combinations(usable.values(), 2)):
        return _NOT_COMPARED_ADVICE[objective]
    return "" if told or not _is_open(objective, usable) else _CLOSE_ADVICE[objective]


def _have_no_score(objective: str, runs: Iterable[Figures]) -> bool:
    return objective == "score" and not any(one.score for one in runs)


def _best_in(objective: str, usable: Mapping[str, Figures]) -> str:
    """The runs that none is measurably better than in an objective, with the next best; empty if that are all that can be compared."""
    group = compared(objective, usable)
    alike = choice.leaders(objective, group)
    best = min(alike, key=lambda name: cost(objective)(alike[name]), default="")
    others = {
        name: one for name, one in group.items() if name not in alike and choice.compare(objective, alike[best], one) == Difference.BETTER
    }
    if not others:
        return ""
    apart = {name: incomparable(objective, usable[best], usable[name]) for name in usable if name not in group}
    note = f", not compared with {listed([*apart])}, because {listed([*dict.fromkeys(apart.values())])}" if apart else ""
    verb = "has" if len(alike) == 1 else "have"
    return f"{listed([*alike])} {verb} the best {objective} ({_figures(objective, usable[best], others)}){note}"


def _in(objective: str, one: Figures, others: Iterable[Figures]) -> bool:
    """Whether a run is measurably better in an objective than each of the others."""
    return all(choice.compare(objective, one, other) == Difference.BETTER for other in others)


def _state(objective: str, usable: Mapping[str, Figures]) -> str:
    """What is known of an objective in which no run is better than all others."""
    if _have_no_score(objective, usable.values()):
        return "No run has a score"
    title = objective.capitalize()
    pairs = [incomparable(objective, one, other) for one, other in combinations(usable.values(), 2)]
    if reasons := dict.fromkeys(filter(None, pairs)):
        return f"{title} is not compared{'' if all(pairs) else ' everywhere'}, because {listed([*reasons])}"
    first, last = (pick(usable.values(), key=cost(objective)) for pick in (min, max))
    own, theirs = values(objective, first, last)
    if own == theirs:
        return f"{title} is equal ({own})"
    between = f"{own} against {theirs}{in_parentheses(difference_text(objective, first, last))}"
    if choice.compare(objective, first, last) == Difference.BETTER:
        return f"In {objective} they differ by no more than neighbours can be told apart, and the ends differ ({between})"
    return f"No difference in {objective} shows ({between})"


def _is_open(objective: str, usable: Mapping[str, Figures]) -> bool:
    """Whether a further measurement could tell: the values differ."""
    scores_known = objective != "score" or all(one.score for one in usable.values())
    return scores_known and len({values(objective, one, one)[0] for one in usable.values()}) > 1


def _figures(objective: str, one: Figures, others: Mapping[str, Figures], *, with_difference: bool = True) -> str:
    """The value of a run in an objective, against the next best."""
    own, theirs, name = against_next(objective, one, others)
    what = {"score": f"{one.score_name.replace('_', ' ')} {own}", "latency": f"{own} for a request", "size": own}[objective]
    seen = difference_text(objective, one, others[name]) if with_difference else ""
    return f"{what} against {theirs} of {name}{in_parentheses(seen)}"
