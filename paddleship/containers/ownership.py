"""Which process made a container or network, and whether it was left over by one that was killed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from paddleship.system import processes

OWNER, UNTIL = "io.paddleship.acceptance", "io.paddleship.acceptance-until"  # labels
_LONGEST_S = 6 * 3600  # of an acceptance


def labels() -> dict[str, str]:
    """Labels with the process that made a container or network, and when it expires if that process cannot be seen."""
    return {OWNER: processes.identity(), UNTIL: str(int(time.time() + _LONGEST_S))}


def is_left_over(labels: Mapping[str, str]) -> bool:
    lives = processes.is_alive(labels[OWNER])
    return time.time() > float(labels[UNTIL]) if lives is None else not lives
