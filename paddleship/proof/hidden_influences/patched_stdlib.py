"""Let functions of Python's standard library show the values of Circumstances."""

from __future__ import annotations

import builtins
import datetime
import io
import locale
import os
import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from paddleship.proof.hidden_influences import altered_files
from paddleship.proof.hidden_influences.execution_environment import Circumstances
from paddleship.proof.hidden_influences.replacing import replace, set_in_type
from paddleship.proof.hidden_influences.sources import Cause

_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_IDENTITY = ("getpid", "getppid", "getuid", "geteuid", "getgid", "getegid")
_Real = Callable[..., Any]


def install(seen: Circumstances) -> None:
    _seconds(seen)
    _dates(seen)
    _zone(seen)
    _machine(seen)
    _locale(seen)
    _files(seen)
    _environment(seen)


def _seconds(seen: Circumstances) -> None:
    def seconds(_: _Real, *_clock: int, what: str) -> float:
        return seen.read_clock(what)

    def nanoseconds(_: _Real, *_clock: int, what: str) -> int:
        return int(seen.read_clock(what) * 1e9)

    def broken_down(real: _Real, arguments: float | None = None, *, what: str) -> Any:
        if arguments is not None and what != "time.gmtime":
            seen.note(Cause.ZONE, what)
        return real(seen.read_clock(what) if arguments is None else arguments)

    def written(real: _Real, *arguments: Any, least: int) -> str:
        return str(real(*arguments) if len(arguments) > least else real(*arguments, time.localtime()))

    for name in (*_SECONDS, "clock_gettime"):
        replace(time, name, partial(seconds, what=f"time.{name}"))
        replace(time, f"{name}_ns", partial(nanoseconds, what=f"time.{name}_ns"))
    for name in ("localtime", "gmtime", "ctime"):
        replace(time, name, partial(broken_down, what=f"time.{name}"))
    for name, least in (("asctime", 0), ("strftime", 1)):
        replace(time, name, partial(written, least=least))


def _dates(seen: Circumstances) -> None:
    made = {kind: kind.__dict__["fromtimestamp"] for kind in (datetime.datetime, datetime.date)}

    def moment(kind: type, seconds: float, *zone: datetime.tzinfo | None) -> Any:
        return made[datetime.datetime if issubclass(kind, datetime.datetime) else datetime.date].__get__(None, kind)(seconds, *zone)

    def now(kind: type, tz: datetime.tzinfo | None = None) -> Any:
        return moment(kind, seen.read_clock("datetime.now"), tz)

    def utcnow(kind: type) -> Any:
        return moment(kind, seen.read_clock("datetime.utcnow"), datetime.UTC).replace(tzinfo=None)

    def today(kind: type) -> Any:
        return moment(kind, seen.read_clock("date.today"))

    def from_timestamp(kind: type, timestamp: float, *zone: datetime.tzinfo | None, **named: datetime.tzinfo | None) -> Any:
        zone = (*zone, *named.values())
        if not any(zone):
            seen.note(Cause.ZONE, "fromtimestamp")
        return moment(kind, timestamp, *zone)

    methods: dict[str, Any] = {"fromtimestamp": from_timestamp, "today": today}
    set_in_type(datetime.date, **{name: classmethod(method) for name, method in methods.items()})
    methods |= {"now": now, "utcnow": utcnow}
    set_in_type(datetime.datetime, **{name: classmethod(method) for name, method in methods.items()})


def _zone(seen: Circumstances) -> None:
    timestamp, astimezone = (datetime.datetime.__dict__[name] for name in ("timestamp", "astimezone"))

    def since_1970(moment: datetime.datetime) -> Any:
        if moment.tzinfo is None:
            seen.note(Cause.ZONE, "datetime.timestamp")
        return timestamp(moment)

    def in_zone(moment: datetime.datetime, tz: datetime.tzinfo | None = None) -> Any:
        if moment.tzinfo is None or tz is None:
            seen.note(Cause.ZONE, "datetime.astimezone")
        return astimezone(moment, tz)

    def mktime(real: _Real, arguments: Any) -> Any:
        seen.note(Cause.ZONE, "time.mktime")
        return real(arguments)

    set_in_type(datetime.datetime, timestamp=since_1970, astimezone=in_zone)
    replace(time, "mktime", mktime)
    replace(time, "tzset", lambda _: seen.set_zone())
    vars(time)["__getattr__"] = seen.zone


def _machine(seen: Circumstances) -> None:
    def count(real: _Real, *arguments: Any, what: str) -> Any:
        return (seen.note(Cause.CPUS, what) and seen.setting.cpus) or real(*arguments)

    def affinity(real: _Real, process: int) -> Any:
        shown = seen.note(Cause.CPUS, "os.sched_getaffinity") and seen.setting.cpus
        return set(range(shown)) if shown else real(process)

    def configured(real: _Real, name: str | int) -> Any:
        cpus = name in ("SC_NPROCESSORS_ONLN", "SC_NPROCESSORS_CONF")
        return count(real, name, what="os.sysconf") if cpus else real(name)

    def hostname(real: _Real) -> Any:
        return (seen.note(Cause.HOST, "socket.gethostname") and seen.setting.host) or real()

    def uname(real: _Real) -> Any:
        shown, (system, node, *rest) = seen.note(Cause.HOST, "os.uname") and seen.setting.host, real()
        return os.uname_result((system, shown or node, *rest))

    def identity(real: _Real, *, what: str) -> int:
        return int(real()) + (seen.setting.identity if seen.note(Cause.IDENTITY, what) else 0)

    for name in ("cpu_count", "process_cpu_count"):
        if hasattr(os, name):
            replace(os, name, partial(count, what=f"os.{name}"))
    replace(os, "sched_getaffinity", affinity)
    replace(os, "sysconf", configured)
    replace(os, "uname", uname)
    replace(socket, "gethostname", hostname)
    for name in _IDENTITY:
        replace(os, name, partial(identity, what=f"os.{name}"))


def _locale(seen: Circumstances) -> None:
    def shown(what: str) -> str | None:
        return seen.setting.locale if seen.note(Cause.LOCALE, what) else None

    def current(real: _Real, category: int, chosen: str | None = None) -> Any:
        return (shown("locale.setlocale") if chosen is None else None) or real(category, chosen)

    def numbers(real: _Real) -> Any:
        return {**real(), **({"decimal_point": ",", "thousands_sep": "."} if shown("locale.localeconv") else {})}

    def encoding(real: _Real, *arguments: Any, what: str) -> Any:
        return (shown(what) or "").partition(".")[2] or real(*arguments)

    replace(locale, "_setlocale", current)
    replace(locale, "localeconv", numbers)
    for name in ("getpreferredencoding", "getencoding"):
        replace(locale, name, partial(encoding, what=f"locale.{name}"))


def _files(seen: Circumstances) -> None:
    def opened(real: _Real, file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        changed = seen.setting.files and altered_files.can_change(file, mode) and seen.note(Cause.FILES, f"open of {os.fspath(file)!r}")
        with altered_files.copy_of(file, real) if changed else nullcontext(file) as path:
            return real(path, mode, *rest, **named)

    replace(io, "open", opened)
    replace(builtins, "open", opened)


def _environment(seen: Circumstances) -> None:
    kind: Any = type(os.environ)
    real = kind.__getitem__  # `get`, `in`, `items` and os.getenv use it

    def getitem(environment: Any, name: Any) -> Any:
        seen.note(Cause.ENVIRONMENT, os.fsdecode(name))
        return real(environment, name)

    kind.__getitem__ = getitem
