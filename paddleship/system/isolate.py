"""Run an object in a child process; a crash, abort or hang of the child raises an error here.

Runtimes keep global state, write to standard output and sometimes crash. A process for each also makes its memory
measurable, and frees it. What a child leaves in its folder for temporary files is removed when it ends, also by a crash.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from paddleship.errors import CandidateError, Defect, OutOfTime, PaddleshipError, ProcessDied, ProcessHung
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.shipped.computing.references import user_line
from paddleship.system import crash_location, deadline, defects, disk, processes, source_imports

Factory = tuple[Callable[..., Any], tuple[Any, ...]]  # a factory and its arguments, to be called in a child process

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NAMES_OPERATOR = re.compile(r"\[OP: ")
_NAMES_ERROR = re.compile(r"\[ERROR\]|\w+Error: |terminate called|what\(\):")
_SUMMARY = "Error Message Summary:"  # of Paddle, after the frames of a C++ traceback
_SHOWN = 300  # characters of the beginning, and of the end, of a long message
_LOOK_S = 0.5  # between checks of a child that has not answered
_LOG_BYTES = 10_000_000  # kept of a child's output; a runtime may print at every request
_LAST_BYTES = 100_000
_one_start = threading.Lock()  # __main__ is shared by all threads


class Isolated:
    """The object `factory(*arguments)` in a child process; `call` runs its methods there.

    `timeout_s` limits each call and the construction. Raises ProcessDied or ProcessHung if the child dies or hangs, and the child's
    exception if it is in paddleship.errors. Any exception about a full disk becomes Unavailable; any other one becomes a Defect with the
    child's traceback if paddleship is at fault, otherwise a CandidateError. Raises OutOfTime at the deadline of the block in which it was
    created.
    """

    def __init__(
        self, name: str, factory: Callable[..., Any], *arguments: Any, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._deadline = deadline.current()
        if self._deadline is not None and self._deadline.over:
            raise self._late()
        context = multiprocessing.get_context("spawn")
        self.usable = True
        self._timeout_s = timeout_s
        self._pipe, theirs = context.Pipe()
        self._folder = Path(tempfile.mkdtemp(prefix="paddleship-"))
        self._log = self._folder / "log"
        variables = {"TMPDIR": str(self._folder), **(environment or {})}
        self._process = context.Process(target=_serve, args=(theirs, variables, str(self._log)), name=name, daemon=True)
        with _empty_main():
            self._process.start()
        theirs.close()
        try:
            self.answer = self._exchange("load", (factory, arguments))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def call(self, method: str, *arguments: Any) -> Any:
        return self._exchange(method, arguments)

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to the child and its descendants; no effect if the child has ended."""
        if self._process.exitcode is None:
            processes.send(self.pid, what)

    def close(self) -> None:
        self._pipe.close()
        self.signal(signal.SIGKILL)
        self._process.join()
        for folder in (self._folder, crash_location.rewritten_code(self.pid)):
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _exchange(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if not self.usable:
            raise ProcessDied(f"{self.name} had ended before it was called ({method})")
        try:
            self._pipe.send((method, arguments))
            if not self._answered():
                self.usable = False
                self.signal(signal.SIGKILL)  # a late answer would be read as the answer to the next call
                if self._deadline is not None and self._deadline.over:
                    raise self._late()
                raise ProcessHung(
                    f"{self.name} did not answer in {self._timeout_s:g} s ({method}): it hangs, or needs more time: "
                    "raise timeout_s (of the doctor: --seconds)",
                    seconds=self._timeout_s,
                )
            succeeded, value = self._pipe.recv()
        except (EOFError, ConnectionError):
            self.usable = False
            self._process.join(10)
            output = _last_output(self._log)
            error = _last_error(output)
            suffix = f"; its last error: {error}" if error else ""
            code = self._process.exitcode
            where = crash_location.locate(output)
            raise ProcessDied(f"{self.name} {_death(code)} ({method}){suffix}", signal=_signal(code), where=where) from None
        if isinstance(value, Defect):
            raise Defect(f"{self.name}: {value.message}", value.trace)
        if not succeeded:
            raise value
        return value

    def _answered(self) -> bool:
        """Whether an answer came in time; also true if the child has ended, which reading the answer then shows.

        Raises EOFError if the child has ended and one of its descendants keeps the pipe open.
        """
        end = time.monotonic() + (self._timeout_s if self._deadline is None else min(self._timeout_s, self._deadline.left()))
        while True:
            self._shorten_log()
            if self._pipe.poll(max(0.0, min(_LOOK_S, end - time.monotonic()))):
                return True
            if not self._process.is_alive() and not self._pipe.poll():
                raise EOFError
            if time.monotonic() >= end:
                return False

    def _late(self) -> OutOfTime:
        return OutOfTime(f"{self.name} was stopped: its time limit of {self._deadline.seconds if self._deadline else 0:g} s is over")

    def _shorten_log(self) -> None:
        with suppress(OSError):  # the file may be removed already
            if self._log.stat().st_size > _LOG_BYTES:
                os.truncate(self._log, 0)


class Revived:
    """An Isolated that starts at the first call, and starts again after it died or hung."""

    def __init__(
        self, name: str, factory: Callable[..., Any], *arguments: Any, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> None:
        def make() -> Isolated:
            return Isolated(name, factory, *arguments, timeout_s=timeout_s, environment=environment)

        self._make = make
        self._child: Isolated | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        if self._child is None or not self._child.usable:
            self.close()
            self._child = self._make()
        return self._child.call(method, *arguments)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def __enter__(self) -> Revived:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def run(name: str, function: Callable[..., Any], *arguments: Any, timeout_s: float, environment: Mapping[str, str] | None = None) -> Any:
    """Call a function in a child process and return its result."""
    with Isolated(name, function, *arguments, timeout_s=timeout_s, environment=environment) as child:
        return child.answer


@contextmanager
def _empty_main() -> Iterator[None]:
    """Show an empty `__main__`: a spawned child imports the program that it finds there, all of a stage's modules, before its own work."""
    with _one_start:
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = program


def threads(count: int) -> dict[str, str]:
    """Environment variables that limit the math libraries of a child to `count` threads."""
    return {name: str(count) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def _death(code: int | None) -> str:
    if code is None:
        return "closed its pipe and did not end"
    return f"died of {_signal(code)}" if code < 0 else f"exited with {code} before it answered"


def _signal(code: int | None) -> str | None:
    """The name of the signal that ended a process with this exit code; None if it exited by itself."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _last_output(log: Path) -> str:
    """The end of a child's output."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LAST_BYTES))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _last_error(output: str) -> str:
    """The last line of a child's output that names an operator, otherwise an error, without lines about the signal."""
    errors = [line.strip() for line in output.splitlines() if _NAMES_ERROR.search(line) and "FatalError: " not in line]
    errors = [line for line in errors if _NAMES_OPERATOR.search(line)] or errors
    return _COLOUR.sub("", errors[-1]).removeprefix("[ERROR]")[:300] if errors else ""


def _serve(pipe: Connection, environment: dict[str, str], log: str) -> None:
    """Main loop of the child: create the object, then answer calls until the parent closes the pipe."""
    processes.end_with_parent()
    os.environ.update(environment)
    source_imports.compile_anew()
    silence_paddle()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(descriptor, 1)  # runtimes print on both streams, which belong to the parent; answers use the pipe
    os.dup2(descriptor, 2)
    made: Any = None
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        crash_location.print_stack()
        try:
            if method == "load":
                factory, rest = arguments
                made = factory(*rest)
                value = made if _plain(made) else None
            else:
                value = getattr(made, method)(*arguments)
            answer = (True, value)
        except Exception as error:
            answer = (False, _raised(error))
        pipe.send(answer)


def _raised(error: Exception) -> PaddleshipError | Defect:
    """What the parent raises: Unavailable for a full disk, an error of paddleship.errors itself, else a Defect or a CandidateError."""
    if full := disk.full(error, what=multiprocessing.current_process().name):
        return full
    if isinstance(error, PaddleshipError | Defect):
        return error
    message = f"{type(error).__name__}: {_shortened(str(error))}"
    if defects.is_ours(error):
        return Defect(message, "".join(traceback.format_exception(error)))
    return CandidateError(message, where=user_line(error))


def _shortened(said: str) -> str:
    """The message of an error in one line; of a long one its beginning, which says what is wrong, and its end."""
    words = " ".join(said.rpartition(_SUMMARY)[2].lstrip("-\n ").split())
    return words if len(words) <= 2 * _SHOWN else f"{words[:_SHOWN]} … {words[-_SHOWN:]}"


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | tuple | dict)
