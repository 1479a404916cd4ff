"""What answers may depend on besides the inputs, and the lines of the user's code that read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType

from paddleship.shipped.computing.references import is_users

_LONGEST_TEXT = 32

# Standard modules that read the clock, a thread or a file for themselves: what they read stays theirs.
_OWN = frozenset({"logging", "warnings", "traceback", "threading", "concurrent", "queue", "asyncio"})


class Cause(StrEnum):
    """A hidden influence on answers; all but HISTORY and PROCESS are sources that code reads."""

    CLOCK = "clock"
    ZONE = "time zone"
    LOCALE = "locale"
    ENVIRONMENT = "environment"
    CPUS = "number of CPUs"
    HOST = "host"
    IDENTITY = "process id or user"
    THREADS = "threads"
    FILES = "files"
    RANDOM = "random numbers of the system"
    ARGUMENTS = "command line"
    INTERPRETER = "state of the interpreter"
    OUTSIDE = "network or other programs"
    HISTORY = "history"
    PROCESS = "process"


@dataclass(frozen=True)
class Read:
    """One line of the user's code that reads a source; `what` is the function, variable or file, `texts` are short strings beside it."""

    cause: Cause
    what: str
    where: str
    in_forward: bool
    texts: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Setting:
    """What the model is shown: the time in seconds since 1970, and other values; None, or the default, leaves the real one."""

    now: float
    variables: tuple[tuple[str, str | None], ...] = ()
    zone: str | None = None
    locale: str | None = None
    cpus: int | None = None
    host: str | None = None
    identity: int = 0
    threads: int = 0
    files: bool = False


def reading_line(frame: FrameType | None, package: str) -> FrameType | None:
    """The frame of the user's code that reads, directly or through a library; None for reads of Paddle, of imports and of logging.

    A model library that contains the factory counts as the user's code.
    """
    while frame is not None:
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__")).partition(".")[0]
        if is_users(file) or name == package != "paddle":
            return frame
        if name == "paddle" or name in _OWN or _imports(frame):
            return None
        frame = frame.f_back
    return None


def _imports(frame: FrameType) -> bool:
    """Whether the import system reads for itself: not so if a loader is asked for data, as `pkgutil.get_data` does."""
    module, above = str(frame.f_globals.get("__name__")), frame.f_back
    if module.startswith("importlib.resources"):
        return False
    asked = frame.f_code.co_name == "get_data" and above is not None and "importlib" not in str(above.f_globals.get("__name__"))
    return "importlib" in module and not asked


def string_constants(frame: FrameType) -> tuple[str, ...]:
    """The short strings in a function, which may be values that it compares with."""
    texts: list[str] = []
    for constant in frame.f_code.co_consts:
        texts += [text for text in (constant if isinstance(constant, tuple | frozenset) else [constant]) if isinstance(text, str)]
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= _LONGEST_TEXT and " " not in text))
