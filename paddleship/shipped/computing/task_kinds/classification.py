"""Classification: the class with the largest score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddleship.shipped.computing.task_kinds.registration import Array, Decision


def _decide(output: Array) -> Array | None:
    return output.argmax(-1) if output.ndim > 1 else None


def _names(decisions: Array, classes: Sequence[str]) -> list[str]:
    return [classes[int(index)] for index in np.ravel(decisions)]


DECISION = Decision("classification", labels="classes", decide=_decide, names=_names, scored=("top",))
