"""What a server answers to raw rows, one request a row; and a few of those answers, recorded to recognise the same server later."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.acceptance.client import Client, ServerError
from paddleship.acceptance.observing import same_outputs
from paddleship.acceptance.questions import Question, plain_request, questions
from paddleship.acceptance.triton import Outputs, TritonClient
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


def ask(connect: Callable[[], TritonClient], rows: Rows, pads: Mapping[str, float], *, who: str) -> Answered:
    """Ask one server every row until it refuses one. Raises ServerError if it does not even describe its model."""
    progress, outputs = Progress(f"asking the {who}", len(rows), "rows"), []
    with closing(connect()) as client:
        try:
            for question in single_rows(rows, client.metadata(), pads):
                outputs.append(client.ask(question.tensors))
                progress.advance()
        except KeyError as missing:
            return Answered(tuple(outputs), f"its input {missing} is not a column of the rows")
        except ServerError as error:
            return Answered(tuple(outputs), f"row {len(outputs)}: {error}")
    return Answered(tuple(outputs))


def record(client: Client, asked: Sequence[Question]) -> Recording:
    """A few requests with their answers, as JSON. Raises ServerError."""
    recording: Recording = []
    size = 0
    for question in asked[:_MOST_RECORDED]:
        size += question.body_bytes
        if recording and size > _MOST_RECORDED_BYTES:
            break
        request = plain_request(question.tensors)
        status, answer = client.send(json.dumps(request, ensure_ascii=False).encode())
        if status != 200:
            raise ServerError(f"the server answered {status} to a held-out row ({answer[:300].decode(errors='replace')})", status)
        recording.append({"request": request, "outputs": json.loads(answer)["outputs"]})
    return recording


def departures(client: Client, recording: Recording) -> list[str]:
    """The recorded requests that a server does not answer as it was recorded: to a thousandth of an output's size, labels exactly."""
    faults = []
    for number, exchange in enumerate(recording):
        try:
            status, answer = client.send(json.dumps(exchange["request"], ensure_ascii=False).encode())
        except ServerError as error:
            faults.append(f"recorded request {number}: {error}")
            continue
        if status != 200:
            faults.append(f"recorded request {number}: the server answered {status}")
        elif not same_outputs(json.loads(answer)["outputs"], exchange["outputs"]):
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
