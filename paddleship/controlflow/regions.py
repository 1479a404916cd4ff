"""Compare what export made of every `if`, loop and ternary of the user with the outcomes that inputs had in eager mode.

A condition in the program must see inputs on both sides, otherwise one side is not proven. If export decided a condition in Python, all
inputs must decide it in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from paddleship.controlflow.branches import Site
from paddleship.controlflow.resolved_conditions import Decisions
from paddleship.controlflow.tracing import BranchKey
from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.files import read_json

FILE = "control_flow.json"

_INSTEAD = "compute the condition from tensors of the same call, in code that Paddle converts, or remove the branch"


@dataclass(frozen=True)
class Decision:
    """What export made of one site in one sublayer (`layer` is its path, "" for the model itself).

    `region`: it is in the program as `pd_op.if` or `pd_op.while`. `outcomes`: those in Python while converting: 0 and 1 for a condition,
    the number of rounds for a loop. `constant`: Python read a tensor's value to decide.
    """

    site: Site
    layer: str
    region: bool
    outcomes: tuple[int, ...]
    constant: bool = False


def decisions(seen: Decisions) -> list[Decision]:
    """The decisions of one conversion, in the order of the files."""
    keys = sorted({*seen.regions, *seen.taken.by_branch}, key=lambda key: (key[0].file, key[0].line, key[0].column, key[1]))
    return [
        Decision(
            site,
            layer,
            (site, layer) in seen.regions,
            tuple(sorted(seen.taken.by_branch.get((site, layer), ()))),
            (site, layer) in seen.constants or (site.reads and seen.reads),
        )
        for site, layer in keys
    ]


def write(folder: Path, decisions: Sequence[Decision]) -> None:
    """Write the decisions of an export into the folder of its program."""
    lines = ",\n ".join(json.dumps(asdict(decision), ensure_ascii=False) for decision in decisions)
    (folder / FILE).write_text(f"[{lines}]\n", encoding="utf-8")


def read(folder: Path) -> list[Decision]:
    """Read the decisions of the export in `folder`, over all its programs; raises BadInput if there are none.

    Several programs for fixed sizes may decide differently, so their outcomes are combined.
    """
    files = sorted(folder.rglob(FILE)) or [folder / FILE]
    decisions: dict[BranchKey, Decision] = {}
    for value in (value for file in files for value in read_json(file, stage="export")):
        decision = Decision(**{**value, "site": Site(**value["site"]), "outcomes": tuple(value["outcomes"])})
        before = decisions.get((decision.site, decision.layer), decision)
        decisions[decision.site, decision.layer] = Decision(
            decision.site,
            decision.layer,
            before.region or decision.region,
            tuple(sorted({*before.outcomes, *decision.outcomes})),
            before.constant or decision.constant,
        )
    return list(decisions.values())


def judge(
    decisions: Sequence[Decision], taken: Mapping[BranchKey, set[int]], *, require_coverage: bool = False, agreed: bool = False
) -> tuple[list[Finding], dict[str, float]]:
    """One finding per line, and the metrics `regions`, `regions_exercised` (share), `sides`, `sides_exercised` and `frozen_branches`.

    `decisions` are those of an export, `taken` the branches of eager on the inputs of the proof (`TracedEager.taken_branches`).
    `agreed`: the program answered these inputs as eager does. Then a branch that was decided differently is only a warning, because it
    may only fill a cache once.
    """
    regions = [decision for decision in decisions if decision.region]
    sides = [side for decision in regions for side in _sides(decision, taken)]
    findings = [
        *_uncovered(regions, taken, "error" if require_coverage else "warning"),
        *_never_skipped(regions, taken),
        *_frozen([decision for decision in decisions if not decision.region], taken, "warning" if agreed else "error"),
    ]
    frozen = sum(finding.kind not in ("uncovered-branch", "frozen-value") for finding in findings)
    share = sum(sides) / len(sides) if sides else 1.0
    counts = {"regions": len(regions), "sides": len(sides), "sides_exercised": sum(sides), "frozen_branches": frozen}
    return findings, counts | {"regions_exercised": round(share, 4)}


def untaken(decisions: Sequence[Decision], taken: Mapping[BranchKey, set[int]]) -> list[tuple[Decision, int]]:
    """The sides of regions that were never taken, by region and number."""
    return [
        (decision, number) for decision in decisions if decision.region for number, went in enumerate(_sides(decision, taken)) if not went
    ]


def _sides(decision: Decision, taken: Mapping[BranchKey, set[int]]) -> list[bool]:
    """For each side of a region whether it was taken; a loop has one side, its body."""
    outcomes = taken.get((decision.site, decision.layer), set())
    return [any(outcomes)] if decision.site.loops else [1 in outcomes, 0 in outcomes]


def _by_site(decisions: Sequence[Decision]) -> Iterator[tuple[Site, list[Decision]]]:
    for site in dict.fromkeys(decision.site for decision in decisions):
        yield site, [decision for decision in decisions if decision.site == site]


def _uncovered(regions: Sequence[Decision], taken: Mapping[BranchKey, set[int]], severity: Severity) -> Iterator[Finding]:
    for site, group in _by_site(regions):
        missing: dict[str, list[str]] = {}  # what no input did, and in which layers
        for decision in group:
            if not all(sides := _sides(decision, taken)):
                missing.setdefault(_untaken(site, sides), []).append(decision.layer)
        if not missing:
            continue
        description = ", and none ".join(description + _layer_names(layers, group) for description, layers in missing.items())
        message = f"no input {description}: {quote(site)}, so this part of the program is not proven"
        advice = "add held-out rows that do, or remove the branch"
        yield Finding(
            "uncovered-branch",
            "error" if severity == "error" else "warning",
            message,
            advice,
            site.where,
            next(iter(missing.values()))[0] or None,
        )


def _layer_names(layers: Sequence[str], group: Sequence[Decision]) -> str:
    return f" ({len(layers)} of {len(group)} layers: {', '.join(layers[:3])})" if len(group) > 1 else ""


def _untaken(site: Site, sides: Sequence[bool]) -> str:
    if site.loops:
        return "enters the loop"
    if not any(sides):
        return "reaches either side"
    return f"takes the {'true' if sides[1] else 'false'} side"


def _never_skipped(regions: Sequence[Decision], taken: Mapping[BranchKey, set[int]]) -> Iterator[Finding]:
    """A note, because a `while` may be unable to run zero rounds."""
    for site, group in _by_site(regions):
        outcomes = {outcome for decision in group for outcome in taken.get((site, decision.layer), ())}
        if site.kind == "while" and outcomes and 0 not in outcomes:
            rounds = "once" if min(outcomes) == 1 else f"{min(outcomes)} times"
            message = f"every input runs the loop at least {rounds}, and none skips it: {quote(site)}"
            yield Finding("uncovered-branch", "note", message, "add a row that skips the loop, if one can exist", site.where)


def _frozen(decided: Sequence[Decision], taken: Mapping[BranchKey, set[int]], severity: Severity) -> Iterator[Finding]:
    for site, group in _by_site(decided):
        wrong = [decision for decision in group if taken.get((site, decision.layer), set()) - set(decision.outcomes)]
        if wrong:
            outcomes = set().union(*(taken[site, decision.layer] for decision in wrong))
            frozen_outcomes = {outcome for decision in wrong for outcome in decision.outcomes}
            message = (
                f"the conversion fixed {quote(site)}: the program always {_frozen_outcome(site, frozen_outcomes)}, "
                f"but in eager mode inputs {_taken_outcomes(site, outcomes)}"
            )
            yield Finding(_kind(site), severity, message, _INSTEAD, site.where, wrong[0].layer or None)
        elif any(decision.constant for decision in group):
            message = f"the conversion fixed {quote(site)} by the value that a tensor had then: the program always takes the same side"
            yield Finding("frozen-value", "warning", message, _INSTEAD, site.where, group[0].layer or None)


def _kind(site: Site) -> str:
    if "training" in site.text:
        return "train-mode"
    sized = any(word in site.text for word in (".shape", "len(", ".size", ".ndim"))
    if site.loops:
        return "frozen-dimension" if sized else "frozen-branch"
    return "dynamic-shape-branch" if sized else "frozen-branch"


def _frozen_outcome(site: Site, outcomes: set[int]) -> str:
    if site.loops:
        return f"runs the loop {_count(outcomes)}"
    return f"takes the {'true' if 1 in outcomes else 'false'} side"


def _taken_outcomes(site: Site, outcomes: set[int]) -> str:
    if site.loops:
        return f"run it {_count(outcomes)}"
    return "take both sides" if len(outcomes) > 1 else f"take the {'true' if 1 in outcomes else 'false'} side"


def _count(outcomes: set[int]) -> str:
    return (
        ("once" if min(outcomes) == 1 else f"{min(outcomes)} times") if len(outcomes) == 1 else f"{min(outcomes)} to {max(outcomes)} times"
    )


def quote(site: Site) -> str:
    """The code of a site, in backquotes."""
    text = {"for": f"for … in {site.text}", "ternary": f"… if {site.text} else …"}.get(site.kind, f"{site.kind} {site.text}")
    return f"`{' '.join(text.split())}`"
