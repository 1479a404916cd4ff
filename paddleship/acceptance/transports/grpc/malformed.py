"""Requests that a server must refuse and survive: malformed, huge, or with sizes that do not agree with their bytes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from paddleship.acceptance.transport import Malformed, PlainRequest
from paddleship.acceptance.transports.grpc.triton import message

REFUSALS = (3, 5, 8, 12)  # INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED
_MEBIBYTE = 2**20


def requests(good: bytes, plain: PlainRequest, too_many: bytes | None, *, model: str) -> Iterator[Malformed]:
    """Requests made from a good one, and `too_many`, which has one row more than the server accepts."""
    if too_many is not None:
        yield Malformed("one row more than the largest batch", too_many, REFUSALS)
    first, others = plain["inputs"][0], plain["inputs"][1:]
    shape, odd = first["shape"], b"\xff" * (16 * math.prod(first["shape"]) + 1)  # the shape needs less in every type
    changes: dict[str, dict[str, Any]] = {
        "an unknown input": {"name": "there is no such input"},
        "an unknown datatype": {"datatype": "COMPLEX"},
        "no datatype": {"datatype": ""},
        "a shape that does not fit": {"shape": [7, *shape]},
        "a negative shape": {"shape": [-1 for _ in shape]},
        "a shape beyond all memory": {"shape": [2**40 for _ in shape]},
        "no rows": {"shape": [0, *shape[1:]], "raw": b""},
        "no bytes": {"raw": b""},
    }
    for name, change in changes.items():
        item = {key: first[key] for key in ("name", "datatype", "shape")} | change
        raw = item.pop("raw", odd)
        left = [{key: one[key] for key in ("name", "datatype", "shape")} for one in others]
        body = message(model_name=model, inputs=[item, *left], raw_input_contents=[raw, *[b""] * len(left)])
        yield Malformed(name, body, REFUSALS)
    bodies = {
        "no message": b"\xff\xff\xff",
        "half of the message": good[: len(good) // 2],
        "an empty message": b"",
        "no inputs": message(model_name=model),
        "another model": message(model_name="there is no such model"),
        "an input twice": good + good,
        "31 MiB of inputs": good + b"\x2a\x00" * (31 * _MEBIBYTE // 2),
        "2 MiB of inputs": good + b"\x2a\x00" * _MEBIBYTE,
        "60 KiB of inputs": good + b"\x2a\x00" * 30_000,
        "2 MiB of raw contents": good + b"\x3a\x00" * _MEBIBYTE,
    }
    for name, body in bodies.items():
        yield Malformed(name, body, REFUSALS)
    yield Malformed("an unknown method", b"", REFUSALS, path="NoSuchMethod")
    yield Malformed("no message for a method without fields", b"\xff\xff\xff", REFUSALS, path="ServerMetadata")


def half_sent(path: str, sent: int, length: int) -> bytes:
    """The first bytes of a connection with a request of HTTP/2 whose message of `length` bytes ends after `sent`."""
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "content-type": "application/grpc", "te": "trailers"}
    fields = b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())
    prefix = b"\x00" + length.to_bytes(4, "big")
    data = [_frame(0, 0, 1, content) for content in _cut(prefix + b"\x00" * sent, 16_384)]
    return b"".join([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _frame(4, 0, 0, b""), _frame(1, 4, 1, fields), *data])


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _cut(content: bytes, size: int) -> Collection[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]
