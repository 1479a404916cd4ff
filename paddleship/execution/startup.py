"""Make a process that imports much and ends soon quicker."""

from __future__ import annotations

import atexit
import gc


def keep_what_they_make() -> None:
    """Search the objects of imported modules, about a million with Prefect and MLflow, seldom for garbage, and at the end not at all.

    Python's own thresholds make both searches two fifths of the CPU time of a short command.
    """
    gc.set_threshold(100_000, 10, 10)
    atexit.register(gc.freeze)
