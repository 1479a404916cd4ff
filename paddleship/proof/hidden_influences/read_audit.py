"""Record reads that no replaced function sees: built-ins that were imported earlier, files, the network, other programs."""

from __future__ import annotations

import dis
import io
import mmap
import os
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from paddleship.proof.hidden_influences.execution_environment import Circumstances
from paddleship.proof.hidden_influences.sources import Cause
from paddleship.shipped.computing.references import is_users

_HERE = str(Path(__file__).parents[1])
_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_PATHS = {"open": "open", "os.listdir": "os.listdir", "os.scandir": "os.scandir", "sqlite3.connect": "sqlite3.connect"}
_OUTSIDE = frozenset({
    "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto",
    "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork",
})  # fmt: skip
_IN_MEMORY = (io.BytesIO, io.StringIO)
_READS = frozenset({"read", "read1", "readinto", "readinto1", "readline", "readlines", "readall", "read_byte"})
_BUILTINS: dict[Cause, tuple[tuple[Any, str], ...]] = {
    Cause.CLOCK: (*((time, name + unit) for name in _SECONDS for unit in ("", "_ns")), (os, "times")),
    Cause.CPUS: ((os, "cpu_count"), (os, "sched_getaffinity")),
    Cause.HOST: ((os, "uname"), (os, "getloadavg"), (sys.modules.get("_socket"), "gethostname")),
    Cause.IDENTITY: tuple((os, name) for name in ("getpid", "getppid", "getuid", "geteuid", "getlogin")),
    Cause.THREADS: ((threading, "get_ident"), (threading, "get_native_id")),
    Cause.FILES: tuple((os, name) for name in ("stat", "lstat", "access", "readlink", "getcwd", "statvfs", "read", "pread", "readv")),
    Cause.RANDOM: ((os, "urandom"), (os, "getrandom"), (uuid, "_generate_time_safe")),
    Cause.INTERPRETER: ((os, "isatty"), *((sys, name) for name in ("gettrace", "getrefcount", "getrecursionlimit"))),
}
# Values of `sys` that differ from process to process.
_OF_SYS = {
    **dict.fromkeys(("argv", "orig_argv"), Cause.ARGUMENTS),
    **dict.fromkeys(("flags", "modules", "path", "executable", "version_info", "warnoptions"), Cause.INTERPRETER),
}


class Observer:
    """Create it before anything is replaced. `observed` also watches every call; files and the network are always watched."""

    def __init__(self, seen: Circumstances) -> None:
        self._seen = seen
        named = [(cause, module, name) for cause, names in _BUILTINS.items() for module, name in names if hasattr(module, name)]
        self._builtins = {getattr(module, name): (cause, f"{module.__name__.lstrip('_')}.{name}") for cause, module, name in named}
        self._functions = {function.__code__: (cause, what) for function, cause, what in _functions()}
        sys.addaudithook(self._audit)

    @contextmanager
    def observed(self) -> Iterator[None]:
        threading.setprofile(self._profile)  # for threads that the model starts
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, thing: Any) -> None:
        if event == "c_call":
            source = self._builtins.get(thing) if _hashable(thing) else _asked_of_open_file(thing)
            if source and not frame.f_code.co_filename.startswith(_HERE):
                self._seen.note(*source, frame)
        elif event == "call":
            if source := self._functions.get(frame.f_code):
                self._seen.note(*source, frame.f_back)
            elif is_users(frame.f_code.co_filename):
                self._look_for_now(frame)
                self._look_for_values_of_sys(frame)

    def _look_for_now(self, frame: FrameType) -> None:
        """numpy's `datetime64` is a type, whose calls no profile shows: what counts is the word in the function that runs."""
        if "datetime64" not in frame.f_code.co_names:
            return
        texts = {constant for constant in frame.f_code.co_consts if isinstance(constant, str)} & {"now", "today"}
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.argval == "datetime64" and texts and instruction.positions is not None:
                self._seen.note(Cause.CLOCK, f"numpy.datetime64({min(texts)!r})", frame, line=instruction.positions.lineno)

    def _look_for_values_of_sys(self, frame: FrameType) -> None:
        """A list is no call either: what counts is a name of `sys.argv`, or of another value of `sys`, in the function that runs."""
        names, known = frame.f_code.co_names, frame.f_globals
        imported = {name: item for name in names for item in _OF_SYS if name in known and known[name] is getattr(sys, item)}
        if not imported and not _OF_SYS.keys() & set(names):
            return
        before = ""
        for instruction in dis.get_instructions(frame.f_code):
            name = str(instruction.argval)
            item = imported.get(name) or (name if name in _OF_SYS and (before == "sys" or known.get(before) is sys) else "")
            if item and instruction.positions is not None:
                self._seen.note(_OF_SYS[item], f"sys.{item}", frame, line=instruction.positions.lineno)
            before = name

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._seen.in_forward:
            return
        if event in _PATHS:
            path = arguments[0]
            if event == "open" and (isinstance(path, int) or not _reads(arguments[2])):
                return
            cause = Cause.RANDOM if path in ("/dev/urandom", "/dev/random") else Cause.FILES
            self._seen.note(cause, f"{_PATHS[event]} of {_text(path)!r}", sys._getframe(1))
        elif event in _OUTSIDE:
            self._seen.note(Cause.OUTSIDE, event, sys._getframe(1))


def _functions() -> Iterator[tuple[Any, Cause, str]]:
    """Functions in Python that read a source; who calls them is the reader."""
    import paddle

    for name in ("active_count", "enumerate", "current_thread"):
        yield getattr(threading, name), Cause.THREADS, f"threading.{name}"
    yield paddle.get_flags, Cause.THREADS, "paddle.get_flags"
    for name in ("random", "getrandbits", "randbytes"):
        yield getattr(random.SystemRandom, name), Cause.RANDOM, f"SystemRandom.{name}"
    yield secrets.randbelow, Cause.RANDOM, "secrets.randbelow"


def _hashable(thing: Any) -> bool:
    """Whether a built-in can be looked up: the hash of a method is that of its object, which may have none."""
    return thing.__self__ is None or isinstance(thing.__self__, type(sys) | type)


def _asked_of_open_file(method: Any) -> tuple[Cause, str] | None:
    """A read through a handle that was opened earlier, of which no audit event tells, or the question whether it is a terminal."""
    if method.__name__ == "isatty":
        return Cause.INTERPRETER, f"isatty of {_text(getattr(method.__self__, 'name', 'a stream'))!r}"
    if method.__name__ in _READS and isinstance(method.__self__, io.IOBase | mmap.mmap) and not isinstance(method.__self__, _IN_MEMORY):
        return Cause.FILES, f"{method.__name__} of {_text(getattr(method.__self__, 'name', 'mapped memory'))!r}"
    return None


def _reads(flags: int) -> bool:
    written = os.O_CREAT | os.O_TRUNC
    return flags & os.O_ACCMODE == os.O_RDONLY or (flags & os.O_ACCMODE == os.O_RDWR and not flags & written)


def _text(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
