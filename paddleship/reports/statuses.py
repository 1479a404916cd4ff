"""How far a candidate came: one word, the same in every report."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What became of a candidate in the stage whose report says so, or in `doctor`.

    `optimize` makes it, `verify` proves it, `benchmark` measures it. There, WRONG answered differently under load, and LEAKS grew
    in memory. `doctor` judges all at once: NOT_EXERCISED agreed with eager in what proves nothing, LATE had no time to be judged.
    """

    MADE = "made"
    NOT_MADE = "not made"
    PROVEN = "proven"
    MEASURED = "measured"
    FAILED = "failed"
    WRONG = "wrong"
    LEAKS = "leaks"
    NOT_EXERCISED = "not exercised"
    NOT_TRIED = "not tried"
    LATE = "not judged in time"
