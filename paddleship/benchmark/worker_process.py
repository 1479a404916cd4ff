"""The worker process of a participant: stopped while it is not asked, monitored while it is."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paddleship.benchmark import system_metrics
from paddleship.benchmark.worker import WarmUp
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.system.isolate import Isolated


class WorkerProcess:
    """The child process of one participant; its methods are those of BenchWorker, called in the child.

    `requests` counts the measured requests. `resident_bytes` is the memory after the last call, `peak_bytes` the maximum so far,
    `peak_device_bytes` the maximum on GPUs (None if none was seen).
    """

    def __init__(self, child: Isolated) -> None:
        self._child = child
        self.requests = 0
        self.resident_bytes = self.peak_bytes = 0
        self.peak_device_bytes: int | None = None

    def first(self, size: int) -> tuple[float, float]:
        return self._call("first", size)  # type: ignore[no-any-return]

    def warm_up(self, size: int, limit_s: float) -> WarmUp:
        return self._call("warm_up", size, limit_s)  # type: ignore[no-any-return]

    def measure(self, size: int, count: int) -> tuple[list[float], list[int], str]:
        result: tuple[list[float], list[int], str] = self._call("measure", size, count)
        self.requests += count
        return result

    def busy(self, size: int, seconds: float) -> tuple[int, float]:
        return self._call("busy", size, seconds)  # type: ignore[no-any-return]

    def answer(self, questions: Sequence[Batch]) -> list[Arrays]:
        return self._call("answer", list(questions))  # type: ignore[no-any-return]

    def close(self) -> None:
        self._child.close()

    def _call(self, method: str, *arguments: Any) -> Any:
        self._stop(False)
        try:
            with system_metrics.MemoryMonitor(self._child.pid) as memory:
                return self._child.call(method, *arguments)
        finally:
            self.peak_bytes = max(self.peak_bytes, memory.peak_bytes)
            self.peak_device_bytes = system_metrics.more(self.peak_device_bytes, memory.peak_device_bytes)
            self.resident_bytes = system_metrics.resident_bytes(self._child.pid)
            self._stop(True)

    def _stop(self, stop: bool) -> None:
        """Stop the process and its children while others are measured, because idle threads of a runtime may spin."""
        self._child.signal(signal.SIGSTOP if stop else signal.SIGCONT)


def together(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call all functions at the same time, each in a thread of its own."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [pending.result() for pending in [pool.submit(work) for work in works]]
