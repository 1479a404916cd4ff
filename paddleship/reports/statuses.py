"""The status of a candidate, the same in every report."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The status of a candidate in the report of a stage, or in `doctor`.

    MADE is from `optimize`, PROVEN from `verify`, MEASURED from `benchmark`; FAILED and NOT_MADE have a reason. In `benchmark`, WRONG
    answered differently under load, and the memory of LEAKS grew. In `doctor`, NOT_EXERCISED agreed with eager although outputs did
    not vary, NOT_TRIED follows an error, and LATE ran out of time.
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
