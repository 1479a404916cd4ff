"""Fake clock and environment variables, and a record of the user's lines that read them; for a child process.

Python's clocks are replaced: `time`, `datetime`, `date`. Reads of the clock or the environment in C (numpy's `datetime64("now")`,
a library's own code) get the real values and are not detected.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date as RealDate
from datetime import datetime as RealDatetime
from types import FrameType
from typing import Any

from paddleship.shipped.common.references import is_users

_TICK_S = 1e-6  # the clock advances by this at every read, so that code that waits for it continues
_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_LONGEST_WORD = 32


class Circumstances:
    """The time and the environment variables of the model from `install` on.

    `package` is the package of the model's factory. `clock` has the lines that read the clock, `variables` the environment variables that
    were read, with their lines, `words` the short strings in the functions that read a variable, which may be its values.
    """

    def __init__(self, now: float, *, variables: Mapping[str, str | None], package: str = "") -> None:
        self.clock: dict[str, None] = {}
        self.variables: dict[str, dict[str, None]] = {}
        self.words: dict[str, dict[str, None]] = {}
        self._now = now
        self._changes = variables
        self._package = package
        self._looks = 0

    def set_clock(self, now: float) -> None:
        self._now, self._looks = now, 0

    def install(self) -> None:
        """Change this process permanently; call it before the user's module is imported."""
        for name, value in self._changes.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for name in _SECONDS:
            setattr(time, name, self._look)
            setattr(time, f"{name}_ns", lambda: int(self._look() * 1e9))
        for name in ("localtime", "gmtime", "ctime"):
            setattr(time, name, self._with_seconds(getattr(time, name)))
        for name, place in (("asctime", 0), ("strftime", 1)):
            setattr(time, name, self._with_struct(getattr(time, name), place))
        _replace_datetime(self._look)
        _watch_environment(self._read)

    def _look(self) -> float:
        if line := _line(sys._getframe(1), self._package):
            self.clock[line[0]] = None
        self._looks += 1
        return self._now + self._looks * _TICK_S

    def _with_seconds(self, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda seconds=None: real(self._look() if seconds is None else seconds)

    def _with_struct(self, real: Callable[..., Any], place: int) -> Callable[..., Any]:
        return lambda *given: real(*given) if len(given) > place else real(*given, time.localtime())

    def _read(self, name: str) -> None:
        if (line := _line(sys._getframe(1), self._package)) is None:
            return
        self.variables.setdefault(name, {})[line[0]] = None
        texts = [text for text in line[1].f_code.co_consts if isinstance(text, str) and text != name]
        self.words.setdefault(name, {}).update(dict.fromkeys(text for text in texts if 0 < len(text) <= _LONGEST_WORD and " " not in text))


def _line(frame: FrameType | None, package: str) -> tuple[str, FrameType] | None:
    """The line of the user's code that reads, directly or through a library; None for reads of Paddle and of imports.

    A model library that contains the factory counts as the user's code.
    """
    while frame is not None:
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__")).partition(".")[0]
        if is_users(file) or name == package != "paddle":
            return f"{file}:{frame.f_lineno}", frame
        if name == "paddle" or "importlib" in file:
            return None
        frame = frame.f_back
    return None


def _replace_datetime(look: Callable[[], float]) -> None:
    class Like(type):
        """A metaclass that accepts the objects of C code as instances, and leaves the user's subclasses alone."""

        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, cls.__dict__["_real"]) if "_real" in cls.__dict__ else super().__instancecheck__(thing)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, cls.__dict__["_real"]) if "_real" in cls.__dict__ else super().__subclasscheck__(kind)

    class Datetime(RealDatetime, metaclass=Like):
        _real = RealDatetime

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return RealDatetime.fromtimestamp(look(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return RealDatetime.fromtimestamp(look(), datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return RealDatetime.fromtimestamp(look())

    class Date(RealDate, metaclass=Like):
        _real = RealDate

        @classmethod
        def today(cls) -> Any:
            return RealDate.fromtimestamp(look())

    datetime.datetime, datetime.date = Datetime, Date  # type: ignore[misc]


def _watch_environment(read: Callable[[str], None]) -> None:
    kind: Any = type(os.environ)
    real = kind.__getitem__  # `get`, `in` and os.getenv use it

    def getitem(environment: Any, name: str) -> Any:
        read(name)
        return real(environment, name)

    kind.__getitem__ = getitem
