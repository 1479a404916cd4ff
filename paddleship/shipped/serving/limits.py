"""The limits of a server that no transport changes: from the sizes that its model accepts, and from the available memory."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddleship.shipped.computing.spec import Dimension, TensorSpec

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_SHARE = 8  # 1/8 of the memory for all requests and answers in flight, and 1/8 for decoding one request
_MOST_IN_FLIGHT_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Limits:
    """The limits of one model: rows of a request, and the memory that a transport derives its own limits from."""

    max_batch: int
    memory_bytes: int


def in_flight_bytes(memory_bytes: int) -> int:
    """The bytes that all requests and answers of a server with this memory may hold at a time."""
    return min(memory_bytes // _SHARE, _MOST_IN_FLIGHT_BYTES)


def available_memory() -> int:
    """Bytes that this process may use: the limit of its container, or the machine's memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(limit for path in _CGROUP_LIMITS if (limit := _read(path)))])


def row_values(requests: Sequence[TensorSpec], dimensions: Sequence[Dimension]) -> float:
    """The number of values in the largest row; infinite if a dimension has no largest size."""
    largest = {rule.name: rule.high for rule in dimensions if rule.high is not None}
    return sum(math.prod(size if isinstance(size, int) else largest.get(size, math.inf) for size in spec.shape[1:]) for spec in requests)


def _read(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # another version of cgroups, or "max"
        return 0
