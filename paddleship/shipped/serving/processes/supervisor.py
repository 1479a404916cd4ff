"""The parent of several server processes: starts them, replaces one that ends, and stops all at SIGTERM. It answers no request.

Processes are forked before anything of the model is loaded, because runtimes and gRPC have threads that a fork does not copy. The parent
imports and holds next to nothing, and handles signals one at a time where it waits for them.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from paddleship.errors import Unavailable
from paddleship.shipped.serving.processes.board import Board, ProcessState
from paddleship.shipped.serving.processes.peers import Peers

log = logging.getLogger("paddleship.shipped.serving")

ERROR = "error: "  # begins the line of a process that failed
_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
_MOST_ENDS, _WINDOW_S = 3, 60.0  # of each process on average in so many seconds; more is a crash loop
_STOP_S = 45.0  # longer than a process takes to stop
_MOST_BYTES = 2**12  # of the line of a process that failed


@dataclass(frozen=True)
class ExitStatus:
    """The exit code of a process, and the line that says why it failed; empty if it did not."""

    code: int = 0
    line: str = ""


Work = Callable[[Peers], ExitStatus]  # what a process does until SIGTERM


def require_free(host: str, port: int, *, option: str) -> None:
    """Raise Unavailable if somebody listens on the port, which processes that share it would not notice."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError:
        raise Unavailable(f"port {port} on {host} is unavailable: choose another with {option}") from None


def supervise(count: int, work: Work) -> ExitStatus:
    """Let `work` run in so many processes until SIGTERM, until one cannot start, or until they end again and again."""
    return _Supervisor(count, work).run()


class _Supervisor:
    def __init__(self, count: int, work: Work) -> None:
        self._board, self._work = Board(count), work
        self._slots: dict[int, int] = {}  # by process id
        self._recent_ends: deque[float] = deque()
        self._parent, self._lives = os.pipe()  # its writing end closes with this process
        self._failed, self._lines = os.pipe()
        os.set_blocking(self._failed, False)
        self._exit: ExitStatus | None = None
        self._kill_at = 0.0

    def run(self) -> ExitStatus:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for slot in range(self._board.count):
            self._start(slot)
        while self._slots:
            received = signal.sigtimedwait(_SIGNALS, 1.0)
            if received is not None:
                self._handle(signal.Signals(received.si_signo))
            if self._exit is not None and time.monotonic() > self._kill_at:
                self._signal(signal.SIGKILL)
        return self._exit or ExitStatus()

    def _handle(self, received: signal.Signals) -> None:
        if received is signal.SIGCHLD:
            self._reap()
        elif received is signal.SIGUSR1:
            self._signal(received)
        else:
            self._stop(ExitStatus())

    def _stop(self, status: ExitStatus) -> None:
        """Ask all processes to finish what they have begun; the first reason counts."""
        if self._exit is None:
            self._exit, self._kill_at = status, time.monotonic() + _STOP_S
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._slots:
            os.kill(pid, number)  # it exists, because it has not been waited for

    def _reap(self) -> None:
        """Wait for all processes that have ended, and for orphans if this is the first process of a container."""
        while self._slots:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in self._slots:
                self._process_ended(self._slots.pop(pid), os.waitstatus_to_exitcode(status))

    def _process_ended(self, slot: int, code: int) -> None:
        if self._exit is not None:
            if code == -signal.SIGKILL:
                self._exit = ExitStatus(1, f"{ERROR}a server process did not stop in time and was killed: see the log above")
            return
        how, line = f"exit code {code}" if code >= 0 else signal.Signals(-code).name, self._line()
        if self._board.state(slot) is ProcessState.STARTING:
            line = line or f"{ERROR}a server process ended ({how}) before its model was ready: see the log above"
            self._stop(ExitStatus(max(code, 1), line))
        elif self._is_loop():
            why = line.removeprefix(ERROR) or "after SIGKILL, give the container more memory; else see the log above"
            many = f"{len(self._recent_ends)} server processes ended in {_WINDOW_S:g} s"
            self._stop(ExitStatus(1, f"{ERROR}{many}, the last one with {how}: {why}"))
        else:
            log.warning("a server process ended (%s), and is replaced%s", how, f": {line.removeprefix(ERROR)}" if line else "")
            self._board.count_replaced()
            self._board.set_state(slot, ProcessState.REPLACING)
            self._start(slot)

    def _is_loop(self) -> bool:
        """Count the end of a process; whether too many have ended lately."""
        now = time.monotonic()
        self._recent_ends.append(now)
        while self._recent_ends[0] < now - _WINDOW_S:
            self._recent_ends.popleft()
        return len(self._recent_ends) > _MOST_ENDS * self._board.count

    def _line(self) -> str:
        """The line of the process that failed last, if it had one; empty otherwise."""
        try:
            return os.read(self._failed, _MOST_BYTES).decode(errors="replace").rstrip("\n").rpartition("\n")[2]
        except BlockingIOError:
            return ""

    def _start(self, slot: int) -> None:
        pid = os.fork()
        if pid:
            self._slots[pid] = slot
        else:
            self._run_forked(slot)

    def _run_forked(self, slot: int) -> NoReturn:
        """Do the work as the forked process, which never returns to what its parent does."""
        status = ExitStatus(1)
        try:
            os.setpgid(0, 0)  # so that Ctrl-C in a terminal reaches the parent alone
            os.close(self._lives)
            threading.Thread(target=self._end_with_parent, name="parent", daemon=True).start()
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until there are clients to send away
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            status = self._work(Peers(self._board, slot))
            if status.line:
                os.write(self._lines, status.line.encode()[: _MOST_BYTES - 1] + b"\n")
        except BaseException:
            traceback.print_exc()
        finally:
            logging.shutdown()
            os._exit(status.code)

    def _end_with_parent(self) -> None:
        os.read(self._parent, 1)  # returns when the parent has ended, whatever the reason
        os.kill(os.getpid(), signal.SIGTERM)
