"""Tagging: for each position of a row, such as a character of a text, the tag with the largest score. An answer names spans of tags."""

from __future__ import annotations

import json
from collections.abc import Sequence

from paddleship.shipped.computing.task_kinds.registration import Array, Decision, Positions

OUTSIDE = "O"  # the tag of what belongs to no span
_BEGIN, _INSIDE = "B-", "I-"


def spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The name, first position and end of each span: a run of one tag, except O.

    Two tags such as B-DATE and I-DATE have the name DATE: B begins a span, and I continues a span of its name, or begins one.
    """
    found: list[tuple[str, int, int]] = []
    for index, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        name = tag[2:] or tag if tag.startswith((_BEGIN, _INSIDE)) else tag
        goes_on = bool(found) and found[-1][0] == name and found[-1][2] == index and not tag.startswith(_BEGIN)
        if goes_on:
            found[-1] = (name, found[-1][1], index + 1)
        else:
            found.append((name, index, index + 1))
    return found


def _decide(output: Array) -> Array | None:
    return output.argmax(-1) if output.ndim > 2 else None


def _names(decisions: Array, classes: Sequence[str], positions: Sequence[Positions]) -> list[str]:
    """The spans of each row as a JSON list, by characters or steps of the row as it was sent."""
    return [json.dumps(_row(row, classes, parts), ensure_ascii=False) for row, parts in zip(decisions, positions, strict=True)]


def _row(decided: Array, classes: Sequence[str], parts: Positions) -> list[dict[str, str | int]]:
    """The spans of one row. A character of which normalisation made several is decided by the first of them."""
    own = [index for index, (start, _) in enumerate(parts) if not index or start >= parts[index - 1][1]]
    tags = [classes[int(decided[index])] for index in own]
    return [{"tag": name, "start": parts[own[first]][0], "end": parts[own[end - 1]][1]} for name, first, end in spans(tags)]


DECISION = Decision("tagging", labels="lists of tags, one for each character or step", decide=_decide, names=_names, per_position=True)
