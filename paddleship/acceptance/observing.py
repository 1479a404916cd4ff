"""Send a server all requests of the acceptance test, and record its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paddleship.acceptance import hostile
from paddleship.acceptance.load import LoadResult, closed_loop
from paddleship.acceptance.questions import Question, mixed, plain_request, questions, repeated, repeated_bytes, within
from paddleship.acceptance.transport import Client, Malformed, Outcome, Outputs, Server, ServerError, Tensors, title
from paddleship.numerics import differences
from paddleship.system.progress import Progress

_IN_LOAD = 4  # different requests of one row
_CONCURRENT_BATCHES = 24  # batches of different sizes
TIMEOUT_S = 600  # with a slow model, callers wait for each other's batches; speed is not tested here
_ALL_BYTES, _CONCURRENT_BYTES = 200 * 2**20, 50 * 2**20
_CONCURRENT_ROUNDS, _CONCURRENT_SECONDS = 8, 3
_SHOWN = 300  # characters of a refusal
_SAME = 1e-3  # of the size of an output: far above rounding, far below a different answer


@dataclass(frozen=True)
class Observed:
    """The answers of the server.

    `asked` are the indices of the batches that were sent: all that the server accepts, unless they take too long together. `answers` are in
    their order, `faults` are unanswered requests. `concurrent_answers` are the distinct answers of concurrent callers, by batch index.
    `hostile` names bad requests with a wrong code, or after which the server was not ready. `example` is a request of one row with its
    answer. `max_batch`, `candidate_digest` and `processes` are from the server's metadata. `transport` is the one that was tested.
    """

    max_batch: int
    candidate_digest: str
    asked: list[int]
    answers: list[Outputs]
    faults: list[str]
    load: LoadResult
    concurrent_load: LoadResult
    concurrent_answers: dict[int, list[Outputs]]
    hostile: list[str]
    example: dict[str, Any]
    transport: str
    processes: int = 1


def observe(
    server: Server,
    *,
    batches: Sequence[Mapping[str, Sequence[Any]]],
    pads: Mapping[str, float],
    requests: int,
    concurrency: int,
    seconds: float = float("inf"),
    malformed: Callable[[str, Any], Iterable[tuple[str, Any]]] = lambda _column, _value: (),
    missing: Collection[str] = (),
    on_first_answer: Callable[[], None] = lambda: None,
) -> Observed:
    """Send the server all batches of raw columns, alone and with concurrent callers, and the bad requests.

    The load of single rows ends after `requests` requests, or after `seconds` if that is earlier. `malformed` makes values that the server
    must refuse, by description, from a column and a valid value of it. `missing` are the columns whose numbers may be missing: of these, a
    row that lacks numbers is also sent in every form.

    Raises ServerError without metadata, or without a batch of one row.
    """
    with closing(server.connect()) as client:
        metadata = client.metadata()
        says = metadata.get("parameters", {})
        limit, body_bytes = int(says.get("max_batch", 0)), int(says.get("max_bytes", _ALL_BYTES))
        every = questions(batches, metadata, pads)
        example = _example(server, _smallest(every)[0])
        on_first_answer()
        asked = within(every, body_bytes=body_bytes, total_bytes=_ALL_BYTES)
        if not asked:
            raise ServerError(
                f"no batch of held-out rows fits into the {body_bytes:,} bytes that the server accepts: raise accept.memory_bytes"
            )
        answers, faults = _ask(client, asked, server.transport)
        small = _smallest(asked)
        small = [*small[:_IN_LOAD], *[question for question in small[_IN_LOAD:] if question.lacks_numbers][:1]]
        faults += [fault for question in small for fault in _other_forms(server, question, metadata)]
        single = [server.encode(one.tensors) for one in small]
        load = closed_loop(server.connect, single, requests=requests, concurrency=concurrency, seconds=seconds)
        many = within(mixed(asked, count=_CONCURRENT_BATCHES), body_bytes=body_bytes, total_bytes=_CONCURRENT_BYTES)
        bodies = [server.encode(one.tensors) for one in many]
        concurrent_load = closed_loop(
            server.connect, bodies, requests=_CONCURRENT_ROUNDS * len(many), concurrency=concurrency, seconds=_CONCURRENT_SECONDS
        )
        by_place: dict[int, set[bytes]] = {}
        for question, distinct in [*zip(small, load.answers, strict=True), *zip(many, concurrent_load.answers, strict=True)]:
            by_place.setdefault(question.place, set()).update(distinct)
        concurrent_answers = {place: [server.decode(answer) for answer in distinct] for place, distinct in by_place.items()}
        one_too_many = repeated_bytes(small[0], limit + 1) <= body_bytes  # a larger body is refused for its size anyway
        too_many = server.encode(repeated(small[0].tensors, limit + 1)) if one_too_many else None
        hostile_faults = hostile.try_all(server, server.malformed(example["request"], too_many, missing)) + hostile.flood(server)
        hostile_faults += hostile.try_all(server, _malformed_values(server, small[0].tensors, metadata, malformed))
        hostile_faults += _same_again(server, example)
    return Observed(
        limit,
        str(says.get("candidate_digest")),
        [one.place for one in asked],
        answers,
        faults,
        load,
        concurrent_load,
        concurrent_answers,
        hostile_faults,
        example,
        server.transport,
        int(says.get("processes", 1)),
    )


def _ask(client: Client, asked: Sequence[Question], transport: str) -> tuple[list[Outputs], list[str]]:
    progress = Progress(f"comparing over {title(transport)}", len(asked), "batches")
    answers, faults = [], []
    for question in asked:
        try:
            answers.append(client.ask(question.tensors))
        except ServerError as error:
            faults.append(f"a batch of {question.rows}: {error}")
        progress.advance()
    return answers, faults


def _other_forms(server: Server, question: Question, metadata: Mapping[str, Any]) -> list[str]:
    """The forms of a request of one row in which it does not get the same answer as in the usual form."""
    faults = []
    tensors = question.tensors
    with closing(server.connect()) as client:
        for request in server.other_forms(tensors, metadata) if question.rows == 1 else ():
            usual, reply = client.send(server.encode(tensors)), client.provoke(request)
            if reply.outcome is not Outcome.ANSWERED:
                faults.append(f"{request.name}: {reply.code} {reply.text(_SHOWN)}")
            elif not same_outputs(server.decode_plain(reply.payload)["outputs"], server.decode_plain(usual.payload)["outputs"]):
                faults.append(f"{request.name}: another answer than in the usual form")
    return faults


def _malformed_values(
    server: Server, tensors: Tensors, metadata: Mapping[str, Any], malformed: Callable[[str, Any], Iterable[tuple[str, Any]]]
) -> Iterator[Malformed]:
    """Requests that hold a malformed value in one column, in every form that the server takes."""
    for name, array in tensors.items():
        for what, value in malformed(name, array[0]):
            changed = {**tensors, name: np.array([value, *array[1:]], array.dtype)}
            yield Malformed(what, server.encode(changed), server.refusals)
            for other in server.other_forms(changed, metadata) if len(array) == 1 else ():
                yield replace(other, name=f"{what}, {other.name}")


def _example(server: Server, question: Question) -> dict[str, Any]:
    """The request and its answer, as plain values. Raises ServerError."""
    with closing(server.connect()) as client:
        return recorded(server, client, question)


def recorded(server: Server, client: Client, question: Question) -> dict[str, Any]:
    """A request of plain values and its answer. Raises ServerError."""
    request = plain_request(question.tensors)
    reply = client.send(server.encode_plain(request))
    if reply.outcome is not Outcome.ANSWERED:
        raise ServerError(f"the server answered {reply.code} to a held-out row ({reply.text(_SHOWN)})", reply.code)
    return {"request": request, "answer": server.decode_plain(reply.payload)}


def _same_again(server: Server, example: Mapping[str, Any]) -> list[str]:
    """A fault if a good request does not get its first answer again at the end."""
    request = server.encode_plain(example["request"])

    def answered() -> bool:
        with closing(server.connect()) as client:
            try:
                reply = client.send(request)
            except ServerError:
                return False
        return reply.outcome is Outcome.ANSWERED and same_outputs(
            server.decode_plain(reply.payload)["outputs"], example["answer"]["outputs"]
        )

    return [] if hostile.recovers(answered) else ["the answer to a valid request changed after the bad requests"]


def same_outputs(now: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the outputs have the same names, dtypes, shapes and values; floats may differ by `_SAME` of the largest value."""
    if [{**item, "data": None} for item in now] != [{**item, "data": None} for item in before]:
        return False
    return all(
        differences.relative(np.array(one["data"], np.float64), np.array(two["data"], np.float64)) <= _SAME
        if two["datatype"].startswith("FP")
        else one["data"] == two["data"]
        for one, two in zip(now, before, strict=True)
    )


def _smallest(asked: Sequence[Question]) -> list[Question]:
    """The questions with the fewest rows, short ones first."""
    fewest = min(question.rows for question in asked)
    return sorted((question for question in asked if question.rows == fewest), key=lambda question: question.body_bytes)
