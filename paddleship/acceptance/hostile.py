"""Requests that a server must refuse and survive: malformed, huge, cut off, or in an unknown form."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

from paddleship.acceptance.client import Client, ServerError

_PLACEHOLDER = "deeply nested lists"
_MEBIBYTE = 2**20
_UNFINISHED = 30  # bodies at the same time
_SENT_OF_EACH = 4 * _MEBIBYTE
_PATIENCE_S = 10


@dataclass(frozen=True)
class Request:
    """A request, and the statuses that a server may answer."""

    name: str
    body: bytes
    method: str = "POST"
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    allowed: range | tuple[int, ...] = range(400, 500)


def requests(good: Mapping[str, Any], too_many: bytes | None) -> Iterator[Request]:
    """Requests made from a good one, and `too_many`, which has one row more than the server accepts."""
    whole = json.dumps(good).encode()
    first = good["inputs"][0]
    if too_many is not None:
        yield Request("one row more than the largest batch", too_many)
    changes: dict[str, Any] = {
        "an unknown input": {"name": "there is no such input"},
        "a name that is a list": {"name": []},
        "an unknown datatype": {"datatype": "COMPLEX"},
        "no datatype": {"datatype": None},
        "a shape that does not fit": {"shape": [7, *first["shape"]]},
        "a negative shape": {"shape": [-1 for _ in first["shape"]]},
        "a shape beyond all memory": {"shape": [2**40 for _ in first["shape"]]},
        "a shape of text": {"shape": "all"},
        "no rows": {"shape": [0, *first["shape"][1:]], "data": []},
        "no data": {"data": None},
        "data of objects": {"data": [{}] * len(first["data"])},
        "data of null": {"data": [None] * len(first["data"])},
        "ragged data": {"data": [[0], [0, 0]]},
    }
    for name, change in changes.items():
        yield Request(name, json.dumps({**good, "inputs": [first | change, *good["inputs"][1:]]}).encode())
    yield Request("an id that is deeply nested", _nested(json.dumps({**good, "id": _PLACEHOLDER}), 300))
    yield Request("a name that is deeply nested", _nested(json.dumps({**good, "inputs": [first | {"name": _PLACEHOLDER}]}), 1_000))
    bodies = {
        "an empty body": b"",
        "no JSON": b"\x00\xff\xfe",
        "half of the JSON": whole[: len(whole) // 2],
        "a list": b"[]",
        "no inputs": b"{}",
        "inputs that are a number": b'{"inputs": 1}',
        "an input twice": json.dumps({"inputs": [first, *good["inputs"]]}).encode(),
        "NaN": whole.replace(b'"data": [', b'"data": [NaN, ', 1),
        "100,000 brackets": b"[" * 100_000,
        "31 MiB of objects": b"[" + b"{}," * (31 * _MEBIBYTE // 3) + b"{}]",
        "2 MiB of objects": b"[" + b"{}," * (2 * _MEBIBYTE // 3) + b"{}]",
        "2 MiB of lists": b"[" + b"[]," * (2 * _MEBIBYTE // 3) + b"[]]",
    }
    for name, body in bodies.items():
        yield Request(name, body)
    yield Request("another model", whole, path="/v2/models/there-is-no-such-model/infer", allowed=(404,))
    yield Request("compressed", whole, headers=(("Content-Encoding", "gzip"),))
    yield Request("binary tensors", whole, headers=(("Inference-Header-Content-Length", str(len(whole))),))
    yield Request("GET where POST is meant", b"", method="GET", allowed=(405,))


def _nested(request: str, depth: int) -> bytes:
    """The request with nested lists in place of the placeholder."""
    return request.replace(json.dumps(_PLACEHOLDER), "[" * depth + "]" * depth).encode()


def try_all(connect: Callable[..., Client], tried: Sequence[Request]) -> list[str]:
    """Send all requests. Returns those with a wrong status, and those after which the server was not ready."""
    faults = []
    for request in tried:
        with closing(connect()) as client:
            status = _status(lambda client=client, request=request: _exchange(client, request))  # type: ignore[misc]
            if status not in request.allowed:
                faults.append(f"{request.name}: {status or 'no answer'}")
            if (health := _status(lambda client=client: client.get("/v2/health/ready"))) != 200:  # type: ignore[misc]
                faults.append(f"after {request.name} the server is no longer ready ({health or 'no answer'})")
    return faults


def flood(address: tuple[str, int], path: str, healthy: Callable[[], int]) -> list[str]:
    """Leave bodies unfinished, requests unread and connections silent, all at once; `healthy` returns the status of the health check."""
    faults = []
    head = f"POST {path} HTTP/1.1\r\nHost: {address[0]}\r\nContent-Length: {31 * _MEBIBYTE}\r\n\r\n".encode()
    with ExitStack() as opened:
        for sent in [head + b"1" * _SENT_OF_EACH] * _UNFINISHED + [b"", b"POST ", b"\x16\x03\x01\x02\x00", head[:-2]] * 4:
            with suppress(OSError):
                connection = opened.enter_context(socket.create_connection(address, timeout=_PATIENCE_S))
                connection.settimeout(0.03)  # the server need not read a refused body
                connection.sendall(sent)
        if (status := healthy()) != 200:
            faults.append(f"beside unfinished requests the server is no longer ready ({status or 'no answer'})")
    return faults


def recovers(answers: Callable[[], bool]) -> bool:
    """Whether a good request gets its answer again within some seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (answered := answers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answered


def _exchange(client: Client, request: Request) -> tuple[int, bytes]:
    return client.exchange(request.method, request.path or client.path, request.body or None, dict(request.headers))


def _status(exchange: Callable[[], tuple[int, bytes]]) -> int:
    try:
        return exchange()[0]
    except ServerError:
        return 0
