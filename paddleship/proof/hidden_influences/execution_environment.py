"""The circumstances that a model sees in a child process, and a record of the user's lines that read them.

The time and the time zone are shown to all code, other values to the user's code only. Reads in C (numpy's `datetime64("now")`) get the
real values.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from types import FrameType
from typing import Any

from paddleship.proof.hidden_influences.sources import Cause, Read, Setting, reading_line, string_constants

_TICK_S = 1e-6  # the clock advances by this at every read, so that code that waits for it continues
_ZONE = ("timezone", "altzone", "daylight", "tzname")


class Circumstances:
    """The values that are shown, and the `reads` so far. `package` is the package of the model's factory."""

    def __init__(self, setting: Setting, *, package: str = "") -> None:
        self.reads: dict[Read, None] = {}
        self.in_forward = False
        self.setting = setting
        self._package = package
        self._clock_reads, self._busy = 0, False
        self._real_zone, self._tzset = os.environ.get("TZ"), time.tzset
        self._zone: dict[str, Any] = {}

    def install(self) -> None:
        """Change this process permanently, before the user's module is imported."""
        from paddleship.proof.hidden_influences import patched_stdlib

        for name, value in self.setting.variables:
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._real_zone = os.environ.get("TZ")
        patched_stdlib.install(self)
        self.show(self.setting)

    def show(self, setting: Setting) -> None:
        """Show other values from now on, except variables."""
        self.setting, self._clock_reads = setting, 0
        vars(platform)["_uname_cache"] = None
        zone = setting.zone or self._real_zone
        self._busy = True
        if zone is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = zone
        self.set_zone()
        self._busy = False

    def note(self, cause: Cause, what: str, frame: FrameType | None = None, *, line: int | None = None) -> bool:
        """Record the line of the user's code that reads in this frame or above it; false if there is none."""
        if self._busy:
            return False
        self._busy = True  # finding the line looks at files
        try:
            if (reader := reading_line(frame or sys._getframe(1), self._package)) is None:
                return False
            where = f"{reader.f_code.co_filename}:{line or reader.f_lineno}"
            self.reads[Read(cause, what, where, self.in_forward, string_constants(reader))] = None
            return True
        finally:
            self._busy = False

    def read_clock(self, what: str) -> float:
        """The time in seconds since 1970."""
        self.note(Cause.CLOCK, what)
        self._clock_reads += 1
        return self.setting.now + self._clock_reads * _TICK_S

    def set_zone(self) -> None:
        """Apply TZ, and take the attributes of `time` away, so that a read of them calls `zone`."""
        self._tzset()
        self._zone = {name: vars(time).pop(name) for name in _ZONE}

    def zone(self, name: str) -> Any:
        """The attribute of `time`."""
        if name not in self._zone:
            raise AttributeError(f"module 'time' has no attribute {name!r}", name=name, obj=time)
        self.note(Cause.ZONE, f"time.{name}")
        return self._zone[name]
