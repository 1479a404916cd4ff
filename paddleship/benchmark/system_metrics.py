"""Metrics of a process from outside, and of the machine: cores, memory, and other load.

Memory is resident size (RSS), summed over the process and all its descendants; shared memory counts more than once, never in favour of a
candidate. For GPU memory see paddleship/system/devices.py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.system import devices, processes

_EVERY_S = 0.02
_DEVICES_EVERY = 5  # asking a driver takes milliseconds, and runtimes keep their memory


def pin(cores: Sequence[int]) -> None:
    """Pin this process and its future children to these cores; empty: no change."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def cores_for(thread_count: int) -> tuple[int, ...]:
    """As many cores as threads, for one participant; empty if the platform cannot pin.

    The measuring process is not pinned: on the other cores, it would drive their load onto these.
    """
    return tuple(sorted(os.sched_getaffinity(0))[-thread_count:]) if hasattr(os, "sched_setaffinity") else ()


def resident_bytes(pid: int) -> int:
    """Resident size of a process and its descendants; those that have ended count as 0."""
    import psutil

    total = 0
    for each in processes.tree(pid):
        try:
            total += int(psutil.Process(each).memory_info().rss)
        except psutil.Error:
            continue
    return total


def high_water_bytes(pid: int) -> int:
    """The kernel's record of the largest resident size of a process; 0 if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


class MemoryMonitor:
    """Record the memory of a process tree every 20 ms in a thread, during the block.

    `peak_device_bytes` is None if no GPU memory was seen.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak_bytes = 0
        self.peak_device_bytes: int | None = None

    def __enter__(self) -> MemoryMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()
        self.peak_bytes = max(self.peak_bytes, high_water_bytes(self._pid))
        self._sample_devices()

    def _sample(self) -> None:
        samples = 0
        while not self._over.wait(_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pid))
            samples += 1
            if samples % _DEVICES_EVERY == 0:
                self._sample_devices()

    def _sample_devices(self) -> None:
        self.peak_device_bytes = more(self.peak_device_bytes, devices.used_bytes(processes.tree(self._pid)))


def more(one: int | None, other: int | None) -> int | None:
    """The larger of two values that may be None."""
    return max((amount for amount in (one, other) if amount is not None), default=None)


def size_bytes(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(part.stat().st_size for part in path.rglob("*") if part.is_file())


@dataclass(frozen=True)
class OtherLoad:
    """Shares of the machine's processor time that other processes took, and that the host of a virtual machine took (steal).

    `gpu_processes` is the number of other processes that computed on a GPU before or after the measurement.
    """

    busy_share: float
    stolen_share: float
    load_average: float
    gpu_processes: int = 0


def own_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system


class LoadMonitor:
    """Measure how much of the machine's processor time was not ours, from its creation to `seen`; our children must have ended by then.

    With `on_gpu`, also who else computes on a GPU at both moments, when we have no process there. In a container the driver's process ids
    are not ours, so nobody can be told apart in between.
    """

    def __init__(self, *, on_gpu: bool = False) -> None:
        self._on_gpu = on_gpu
        self._on_gpus_before = devices.process_ids() if on_gpu else frozenset[int]()
        self._start = _clocks()

    def seen(self) -> OtherLoad:
        import psutil

        wall, busy, stolen, ours = (now - before for now, before in zip(_clocks(), self._start, strict=True))
        whole = max(wall * (psutil.cpu_count() or 1), 1e-9)
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        on_gpus = self._on_gpus_before | (devices.process_ids() if self._on_gpu else frozenset())
        return OtherLoad(max(0.0, busy - ours) / whole, max(0.0, stolen) / whole, average, len(on_gpus))


def _clocks() -> tuple[float, float, float, float]:
    """Seconds of wall time, of work on all cores, of steal, and of this process with its ended children."""
    import psutil

    machine = psutil.cpu_times()
    idle = machine.idle + getattr(machine, "iowait", 0.0)
    stolen = getattr(machine, "steal", 0.0)
    guests = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)  # already counted in user time
    busy = sum(machine) - idle - stolen - guests
    return time.monotonic(), busy, stolen, own_seconds()
