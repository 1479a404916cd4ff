"""Findings of several runs: one line for each kind, with the runs that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddleship.reports.finding import Finding

_MOST_MESSAGES = 2  # of one kind
_MOST_NAMES = 6


def lines(findings: Mapping[str, Sequence[Finding]], *, everyone: str) -> list[str]:
    """A line for each kind of finding, by the names of the runs; a message that several runs share is written once.

    `everyone` is how all of them are called together.
    """
    kinds = dict.fromkeys(finding.kind for of_run in findings.values() for finding in of_run)
    return [f"{kind}: {_messages(kind, findings, everyone)}" for kind in kinds]


def _messages(kind: str, findings: Mapping[str, Sequence[Finding]], everyone: str) -> str:
    by_message: dict[str, list[str]] = {}
    for name, of_run in findings.items():
        for message in dict.fromkeys(finding.message for finding in of_run if finding.kind == kind):
            by_message.setdefault(message, []).append(name)
    texts = [f"{everyone if len(names) == len(findings) > 1 else _names(names)}: {message}" for message, names in by_message.items()]
    more = len(texts) - _MOST_MESSAGES
    return "; ".join(texts[:_MOST_MESSAGES]) + (f"; and {more} more such finding{'s' * (more > 1)}" if more > 0 else "")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
