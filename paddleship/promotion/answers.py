"""What a server answers to raw rows, one request a row; and a few of those answers, recorded to recognise the same server later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.acceptance.observing import recorded, same_outputs
from paddleship.acceptance.questions import Question, questions
from paddleship.acceptance.transport import Outcome, Outputs, Server, ServerError
from paddleship.data.dataset import Rows
from paddleship.shipped.computing.files import write_text
from paddleship.system.progress import Progress

_MOST_RECORDED, _MOST_RECORDED_BYTES = 16, 2**20  # requests that are recorded, and their size all together; one is recorded in any case

Recording = list[dict[str, Any]]


@dataclass(frozen=True)
class Answered:
    """The outputs for each row, in the order of the rows. `fault` is why there are fewer: the server refused the next row."""

    outputs: tuple[Outputs, ...]
    fault: str = ""


def single_rows(rows: Rows, metadata: Mapping[str, Any], pads: Mapping[str, float]) -> list[Question]:
    """One request a row, in the form that the server's metadata asks for."""
    return questions([rows.take([index]).columns for index in range(len(rows))], metadata, pads)


def ask(server: Server, rows: Rows, pads: Mapping[str, float], *, who: str) -> Answered:
    """Ask one server every row until it refuses one. Raises ServerError where it does not even describe its model."""
    progress, outputs = Progress(f"asking the {who}", len(rows), "rows"), []
    with closing(server.connect()) as client:
        try:
            for question in single_rows(rows, client.metadata(), pads):
                outputs.append(client.ask(question.tensors))
                progress.advance()
        except KeyError as missing:
            return Answered(tuple(outputs), f"its input {missing} is not a column of the rows")
        except ServerError as error:
            return Answered(tuple(outputs), f"row {len(outputs)}: {error}")
    return Answered(tuple(outputs))


def record(server: Server, rows: Rows, pads: Mapping[str, float]) -> Recording:
    """A few requests of one row with their answers, as plain values. Raises ServerError."""
    kept: Recording = []
    size = 0
    with closing(server.connect()) as client:
        for question in single_rows(rows, client.metadata(), pads)[:_MOST_RECORDED]:
            size += question.body_bytes
            if kept and size > _MOST_RECORDED_BYTES:
                break
            one = recorded(server, client, question)
            kept.append({"request": one["request"], "outputs": one["answer"]["outputs"]})
    return kept


def departures(server: Server, recording: Recording) -> list[str]:
    """The recorded requests that a server does not answer as it was recorded: to a thousandth of an output's size, labels exactly."""
    faults = []
    with closing(server.connect()) as client:
        for number, kept in enumerate(recording):
            try:
                reply = client.send(server.encode_plain(kept["request"]))
            except ServerError as error:
                faults.append(f"recorded request {number}: {error}")
                continue
            if reply.outcome is not Outcome.ANSWERED:
                faults.append(f"recorded request {number}: the server answered {reply.code}")
            elif not same_outputs(server.decode_plain(reply.payload)["outputs"], kept["outputs"]):
                faults.append(f"recorded request {number}: another answer")
    return faults


def save(folder: Path, digest: str, recording: Recording) -> None:
    """Save the recorded answers of a candidate."""
    write_text(folder / f"{digest}.json", json.dumps(recording, ensure_ascii=False))


def load(folder: Path, digest: str) -> Recording:
    """The recording that `save` wrote; empty if there is none."""
    path = folder / f"{digest}.json"
    recording: Recording = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return recording
