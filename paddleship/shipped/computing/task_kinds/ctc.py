"""Text that a model reads step by step (CTC), such as a line in a picture: repeats of a character and blanks between are left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddleship.shipped.computing.task_kinds.registration import Array, Decision

BLANK = 0  # the first score of a step; that of data.classes[i] is score i + 1


def _decide(output: Array) -> Array | None:
    """The scores of the characters that were read, from the start of each row; BLANK fills the rest."""
    if output.ndim < 3:
        return None
    best = output.argmax(-1)
    before = np.concatenate([np.full_like(best[:, :1], BLANK), best[:, :-1]], axis=1)
    read = (best != BLANK) & (best != before)
    order = np.argsort(~read, axis=1, kind="stable")
    decided: Array = np.take_along_axis(np.where(read, best, BLANK), order, axis=1)
    return decided


def text(decided: Array, classes: Sequence[str]) -> str:
    """The text of one row."""
    return "".join(classes[int(score) - 1] for score in decided if score > BLANK)


def _names(decisions: Array, classes: Sequence[str]) -> list[str]:
    return [text(row, classes) for row in decisions]


DECISION = Decision("ctc", labels="texts made of the characters in classes", decide=_decide, names=_names, joint=True, steps=True, beside=1)
"""The first output is [batch, steps, 1 + classes]."""
