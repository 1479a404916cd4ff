"""The request sample: how the features of a server's requests are distributed, counted by hour in the bins of the training profile.

No request is kept, only counts. A request costs one look at the clock; a thread of its own computes the features and writes the
file, whatever happens to it. The file holds at most a week of hours.
"""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.features import Bins, Features
from paddleship.shipped.computing.preprocess import Example

log = logging.getLogger("paddleship.shipped.serving")

SCHEMA_VERSION = 1
SUFFIX = ".requests.json"
_EVERY_S = 0.1  # one row of a request, at most so often
_MOST_WAITING = 16  # rows that wait for the thread; older ones are dropped
_LOOK_S = 0.5
_WRITE_S = 10.0
_KEPT = timedelta(days=7)
_ENDED = "the request sample ends here, and the server goes on without it"


def _now() -> datetime:
    return datetime.now(UTC)


class RequestSample:
    """Counts of features by hour. `offer` never waits and never raises."""

    def __init__(self, path: Path, candidate: Candidate, *, every_s: float = _EVERY_S, now: Callable[[], datetime] = _now) -> None:
        self._path, self._every_s, self._now = path, every_s, now
        self._features = Features(candidate.inputs, candidate.preprocess)
        self._bins = [Bins.from_dict(item) for item in candidate.profile["features"]]
        self._head = {"schema_version": SCHEMA_VERSION, "model": candidate.model, "candidate": candidate.name}
        self._head |= {"candidate_digest": candidate.digest, "profile": candidate.profile}
        self._hours: dict[str, dict[str, Any]] = self._of_before()
        self._waiting: deque[tuple[Example, list[float]]] = deque(maxlen=_MOST_WAITING)
        self._next, self._changed, self._failing = 0.0, False, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="request-sample", daemon=True)

    @classmethod
    def start(cls, path: Path, candidate: Candidate) -> RequestSample | None:
        """Begin to count, or go on after a restart. None, with the reason in the log, if the candidate has no profile."""
        if not candidate.profile.get("features"):
            log.warning("no request sample: the candidate has no training profile; make it again with `dvc repro`")
            return None
        _remove_old(path.parent)
        sample = cls(path, candidate)
        sample._write()
        sample._thread.start()
        return sample

    def offer(self, examples: Sequence[Example], columns: Mapping[str, Sequence[Any]]) -> None:
        """Count one row of a request, encoded and as it came, if it is time for another one."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            row = random.randrange(len(examples))  # noqa: S311 a sample
            try:
                self._waiting.append((examples[row], self._features.of_values(columns, row)))
            except Exception:
                self._next = math.inf
                log.exception(_ENDED)

    def close(self) -> None:
        """Count what waits, and write it."""
        self._ended.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        written = time.monotonic()
        try:
            ended = False
            while not ended:
                ended = self._ended.wait(_LOOK_S)
                self._count()
                if self._changed and (ended or time.monotonic() - written > _WRITE_S):
                    written = time.monotonic()
                    self._write()
        except Exception:
            log.exception(_ENDED)

    def _count(self) -> None:
        while self._waiting:
            values = self._features.of(*self._waiting.popleft())
            hour = self._hours.setdefault(_hour(self._now()), {"rows": 0, "counts": [[0] * len(bins) for bins in self._bins]})
            hour["rows"] += 1
            for bins, value, counts in zip(self._bins, values, hour["counts"], strict=True):
                counts[bins.index(value)] += 1
            self._changed = True

    def _write(self) -> None:
        """Replace the file by a whole new one; a failure is logged once, until it works again."""
        oldest, newest = _hour(self._now() - _KEPT), _hour(self._now())
        self._hours = {hour: counts for hour, counts in self._hours.items() if oldest < hour <= newest}
        beside = self._path.with_name(f".{self._path.name}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as stream:
                stream.write(orjson.dumps({**self._head, "hours": self._hours}))
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(self._path)
            self._changed = self._failing = False
        except OSError as error:
            if not self._failing:
                log.warning("the request sample cannot be written to %s (%s): the server goes on without it", self._path, error.strerror)
            self._failing = True

    def _of_before(self) -> dict[str, dict[str, Any]]:
        """What an earlier process of this server counted for the same candidate."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = orjson.loads(self._path.read_bytes())
            sizes = [len(bins) for bins in self._bins]
            hours = {hour: {"rows": int(item["rows"]), "counts": item["counts"]} for hour, item in found["hours"].items()}
            fits = all([len(counts) for counts in item["counts"]] == sizes for item in hours.values())
            if fits and {key: found[key] for key in self._head} == self._head:
                return hours
        return {}


def _remove_old(folder: Path) -> None:
    """Remove the files of servers that have counted nothing for as long as hours are kept."""
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT.total_seconds():
                path.unlink()


def _hour(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H")
