"""The ledger: what was promoted or rolled back, when and why, one JSON line an entry, in a file that is only ever appended to."""

from __future__ import annotations

import fcntl
import getpass
import os
import platform
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddleship.errors import BadInput

_INSTANT = timedelta(microseconds=1)


class Event(StrEnum):
    """What an entry says. After a decision comes `serving` when requests go to its target, and `settled` when tag and alias name it too."""

    REFUSED = "refused"
    DECIDED = "decided"
    SERVING = "serving"
    SETTLED = "settled"


def _somebody() -> str:
    try:
        return f"{getpass.getuser()} on {platform.node()}"
    except (KeyError, OSError):
        return f"user {os.getuid()} on {platform.node()}"


class Shipped(BaseModel):
    """One accepted image of a model version. `reference` is its name in a registry, by digest; None where it is in an engine only."""

    model_config = ConfigDict(frozen=True)

    model: str
    version: str
    image: str
    image_id: str
    candidate_digest: str
    reference: str | None = None


class Entry(BaseModel):
    """One line. `replaces` is the version that served before, `why` the reason as text, `evidence` the checks that decided it.

    `gates` are the params that the checks and the approval followed. `target` is where it serves; None where promote.target is null, so
    that `serving` says only that it is the champion.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    event: Event
    action: Literal["promote", "rollback"]
    shipped: Shipped
    replaces: str | None = None
    why: str
    by: str = Field(default_factory=_somebody)
    approved_by: str | None = None
    evidence: list[str] = []
    metrics: dict[str, float | int] = {}
    gates: dict[str, Any] = {}
    target: str | None = None

    def followed_by(self, event: Event, **changes: Any) -> Entry:
        """A later entry about the same decision."""
        facts = self.model_dump(exclude={"id", "at", "by", "event"})
        return Entry.model_validate({**facts, "event": event, **changes})


class Ledger:
    """The entries of one model in a file, and those that were noted elsewhere, in the order of their time."""

    def __init__(self, path: Path, model: str, *, elsewhere: Iterable[Entry] = ()) -> None:
        self._path, self._model = path, model
        self._elsewhere = [entry for entry in elsewhere if entry.shipped.model == model]

    @property
    def recordings(self) -> Path:
        """The folder of the recorded answers of images, beside the file."""
        return self._path.with_name("recordings")

    @property
    def own(self) -> list[Entry]:
        """The entries of this model in the file. Raises BadInput for a line that is no entry, unless it is the torn last one."""
        if not self._path.exists():
            return []
        *lines, _torn = self._path.read_bytes().split(b"\n")
        return [
            entry for number, line in enumerate(lines, 1) if line and (entry := self._parsed(number, line)).shipped.model == self._model
        ]

    @property
    def entries(self) -> list[Entry]:
        by_id = {entry.id: entry for entry in [*self._elsewhere, *self.own]}
        return sorted(by_id.values(), key=lambda entry: entry.at)

    def append(self, entry: Entry) -> Entry:
        """Write one line, synchronised to the disk; a line that a power cut truncated is ended first.

        Returns the entry as it was written: later than every other one, because their order counts, also if the clock was set back.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                whole = os.pread(handle, size, 0).rfind(b"\n") + 1
                os.ftruncate(handle, whole)
            earlier = self.entries
            if earlier and entry.at <= earlier[-1].at:
                entry = entry.model_copy(update={"at": earlier[-1].at + _INSTANT})
            line = entry.model_dump_json().encode() + b"\n"
            while line:  # a disk that gets full may take a part, and refuses the rest
                line = line[os.write(handle, line) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        return entry

    def serving(self, at: datetime | None = None) -> Entry | None:
        """What served at that time, by default now; None where nothing did."""
        done = [entry for entry in self.entries if entry.event == Event.SERVING and (at is None or entry.at <= at)]
        return done[-1] if done else None

    def targets(self, at: datetime | None = None) -> dict[str, Shipped]:
        """The last image that served on each target up to that time, by default now; the latest target comes last."""
        by_target: dict[str, Shipped] = {}
        for entry in self.entries:
            if entry.event == Event.SERVING and entry.target is not None and (at is None or entry.at <= at):
                by_target.pop(entry.target, None)
                by_target[entry.target] = entry.shipped
        return by_target

    @property
    def champions(self) -> list[Shipped]:
        """Every image that was champion, with the names that it had in registries."""
        return [entry.shipped for entry in self.entries if entry.event == Event.SERVING]

    def unfinished(self, at: datetime | None = None) -> Entry | None:
        """The last decision, unless it was settled, or its own image was refused on the way; None otherwise."""
        decision: Entry | None = None
        for entry in self.entries:
            if at is not None and entry.at > at:
                break
            if entry.event == Event.DECIDED:
                decision = entry
            elif entry.event == Event.SETTLED or (entry.event == Event.REFUSED and decision and _same(entry.shipped, decision.shipped)):
                decision = None
        return decision

    def former(self, version: str | None = None) -> Shipped:
        """The champion of that version, or the one that the present one replaced. A rollback also removes the versions that it undid.

        While a promotion is unfinished that no request goes to yet, the one before it is the present one. Raises BadInput.
        """
        done = [entry for entry in self.entries if entry.event == Event.SERVING]
        if not done:
            raise BadInput(f"the ledger {str(self._path)!r} names no champion of {self._model!r}: promote one with `paddleship promote`")
        unfinished = self.unfinished()
        begun = unfinished is not None and not _same(unfinished.shipped, done[-1].shipped)
        before = [done[-1].shipped] if begun else _stack(done)[:-1]
        wanted = [entry.shipped for entry in done if entry.shipped.version == version] if version else before
        if not wanted:
            versions = list(dict.fromkeys(entry.shipped.version for entry in done))
            so_far = f"champions so far: {', '.join(versions)}"
            if version:
                raise BadInput(f"version {version} was never champion of {self._model!r} ({so_far}): name one of them")
            if len(versions) == 1:
                raise BadInput(f"version {versions[0]} is the only champion that {self._model!r} has had: there is none to go back to")
            raise BadInput(
                f"no champion came before version {done[-1].shipped.version} of {self._model!r}, without those that a rollback undid "
                f"({so_far}): name the version to bring back"
            )
        return wanted[-1]

    def _parsed(self, number: int, line: bytes) -> Entry:
        try:
            return Entry.model_validate_json(line)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise BadInput(
                f"line {number} of the ledger {str(self._path)!r} is no entry ({reason}): restore the file from a copy"
            ) from None


def _same(one: Shipped, other: Shipped) -> bool:
    return one.image_id == other.image_id


def _stack(served: Sequence[Entry]) -> list[Shipped]:
    """The champions that led to the present one, which is the last."""
    stack: list[Shipped] = []
    for entry in served:
        images = [shipped.image_id for shipped in stack]
        if images and images[-1] == entry.shipped.image_id:  # the same one, on another target
            stack.pop()
        elif entry.action == "rollback" and entry.shipped.image_id in images:
            del stack[images.index(entry.shipped.image_id) :]
        stack.append(entry.shipped)
    return stack


def missing(known_entries: Sequence[Entry], entries: Sequence[Entry]) -> list[Entry]:
    """The entries that are not among `known_entries`."""
    known = {entry.id for entry in known_entries}
    return [entry for entry in entries if entry.id not in known]
