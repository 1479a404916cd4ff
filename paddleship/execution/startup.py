"""Speed up a short process that imports many modules."""

from __future__ import annotations

import atexit
import gc


def keep_what_they_make() -> None:
    """Collect garbage among the objects of imported modules (about a million with Prefect and MLflow) seldom, and not at exit.

    Python's own thresholds make both searches two fifths of the CPU time of a short command.
    """
    gc.set_threshold(100_000, 10, 10)
    atexit.register(gc.freeze)
