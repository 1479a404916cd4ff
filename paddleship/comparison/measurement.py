"""Compare two images that anybody made: ask both the same rows, measure them in turn, and how they start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from paddleship.acceptance.transport import Server
from paddleship.comparison import file_rows, side_by_side
from paddleship.comparison.contestants import Contestant
from paddleship.comparison.file_rows import FileRows
from paddleship.comparison.side_by_side import Limits
from paddleship.data.dataset import Rows
from paddleship.errors import BadInput
from paddleship.promotion import answers, score_comparison
from paddleship.promotion.answers import Answered
from paddleship.promotion.image_comparison import ComparedImage, ImageComparison, names, require_comparable, require_same_inputs
from paddleship.system import host

_MORE_STARTS = 2  # of each image, so that its cold start has a median


@dataclass(frozen=True)
class _Seen:
    """One start of an image: its seconds, what the server answered to all rows, and the container's memory before and after."""

    start_s: float
    metadata: Mapping[str, Any]
    answered: Answered
    idle_bytes: int
    loaded_bytes: int
    requests: list[bytes]


def require_different(one: Contestant, other: Contestant) -> None:
    """Raise BadInput unless these are two images whose answers have the same form."""
    if one.served.image_id == other.served.image_id:
        raise BadInput(f"{one.name!r} and {other.name!r} are one image ({one.served.image_id[:19]}): give two")
    require_comparable((one.name, one.candidate), (other.name, other.candidate))


def compare(
    client: Any, one: Contestant, other: Contestant, asked: FileRows, limits: Limits, *, effect: float, seconds: float
) -> ImageComparison:
    """Measure two comparable images. Raises BadInput if one of them does not take the rows, and Unavailable if it does not serve here."""
    positions = file_rows.positions_of(one.candidate, asked.rows)
    ours = _seen(client, one, asked.rows, limits)
    theirs = _seen(client, other, asked.rows, limits, require=lambda found: require_same_inputs((one.name, ours.metadata), found))
    starts_s = [ours.start_s], [theirs.start_s]
    for number in range(_MORE_STARTS):
        for index in (1, 0) if number % 2 == 0 else (0, 1):
            starts_s[index].append(_cold_start(client, (one, other)[index], asked.rows, limits))
    compared = score_comparison.compare(
        asked.rows,
        ours.answered.outputs,
        theirs.answered.outputs,
        task=str(one.candidate.task),
        classes=one.candidate.classes,
        positions=positions,
    )
    raced = side_by_side.race(client, one.served, other.served, ours.requests, limits, effect=effect, seconds=seconds)
    short = names(one.name, other.name)
    images = _compared(one, ours, starts_s[0], short[0]), _compared(other, theirs, starts_s[1], short[1])
    unknown = [
        name for name, each in zip(short, (one, other), strict=True) if asked.held_out_of is None or each.data_sha256 != asked.held_out_of
    ]
    return ImageComparison(images, compared, raced, asked.rows, str(asked.path), asked.total, unknown, host.fingerprint())


def _seen(
    client: Any,
    contestant: Contestant,
    rows: Rows,
    limits: Limits,
    *,
    require: Callable[[tuple[str, Mapping[str, Any]]], None] | None = None,
) -> _Seen:
    """Start an image and ask it all rows; `require` judges its name and metadata first. Raises BadInput for a row that it refuses."""
    begun = time.perf_counter()
    with side_by_side.started(client, contestant.served, limits) as sandbox:
        server = side_by_side.ready(sandbox, contestant.served, limits)
        metadata = _metadata(server)
        if require:
            require((contestant.name, metadata))
        _ask_one(server, contestant, rows)
        start_s, idle = time.perf_counter() - begun, sandbox.memory_bytes()
        answered = answers.ask(server, rows, {}, who=contestant.name)
        if answered.fault:
            raise BadInput(f"{contestant.name!r} does not take the rows ({answered.fault}): correct or remove what it refuses")
        return _Seen(start_s, metadata, answered, idle, sandbox.memory_bytes(), side_by_side.encoded(server, rows, {}))


def _cold_start(client: Any, contestant: Contestant, rows: Rows, limits: Limits) -> float:
    """The seconds from the start of a container to its first answer."""
    begun = time.perf_counter()
    with side_by_side.serving(client, contestant.served, limits) as server:
        _metadata(server)
        _ask_one(server, contestant, rows)
        return time.perf_counter() - begun


def _ask_one(server: Server, contestant: Contestant, rows: Rows) -> None:
    """Raise BadInput if the first row is refused."""
    first = answers.ask(server, rows.take([0]), {}, who=contestant.name)
    if first.fault:
        raise BadInput(f"{contestant.name!r} does not take the rows ({first.fault}): give rows with the columns of its inputs")


def _metadata(server: Server) -> Mapping[str, Any]:
    with closing(server.connect()) as client:
        return client.metadata()


def _compared(contestant: Contestant, seen: _Seen, starts_s: list[float], name: str) -> ComparedImage:
    return ComparedImage(
        name,
        contestant.name,
        contestant.served.image_id,
        contestant.candidate,
        contestant.packaged,
        contestant.size_bytes,
        starts_s,
        seen.idle_bytes,
        seen.loaded_bytes,
    )
