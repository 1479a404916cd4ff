"""Requests that a server must refuse and survive: malformed, huge, cut off, or in an unknown form."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Collection, Iterator
from typing import Any

from paddleship.acceptance.transport import Malformed, PlainRequest

JSON_BYTES = "Inference-Header-Content-Length"
_PLACEHOLDER = "deeply nested lists"
_MEBIBYTE, _BOMB_MEBIBYTES = 2**20, 64
_CLIENT_ERRORS = range(400, 500)


def requests(good: PlainRequest, too_many: bytes | None, missing: Collection[str] = ()) -> Iterator[Malformed]:
    """Requests made from a good one, and `too_many`, which has one row more than the server accepts.

    In the inputs `missing`, null is a number that is missing.
    """
    whole = json.dumps(good).encode()
    first = good["inputs"][0]
    if too_many is not None:
        yield Malformed("one row more than the largest batch", too_many, _CLIENT_ERRORS)
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
        "ragged data": {"data": [[0], [0, 0]]},
    }
    for name, change in changes.items():
        yield Malformed(name, json.dumps({**good, "inputs": [first | change, *good["inputs"][1:]]}).encode(), _CLIENT_ERRORS)
    for place, item in enumerate(good["inputs"]):
        if item["name"] not in missing:
            inputs = [*good["inputs"]]
            inputs[place] = {**item, "data": [None] * len(item["data"])}
            yield Malformed(f"null in {item['name']}", json.dumps({**good, "inputs": inputs}).encode(), _CLIENT_ERRORS)
    yield Malformed("an id that is deeply nested", _nested(json.dumps({**good, "id": _PLACEHOLDER}), 300), _CLIENT_ERRORS)
    yield Malformed(
        "a name that is deeply nested", _nested(json.dumps({**good, "inputs": [first | {"name": _PLACEHOLDER}]}), 1_000), _CLIENT_ERRORS
    )
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
        yield Malformed(name, body, _CLIENT_ERRORS)
    yield Malformed("another model", whole, (404,), path="/v2/models/there-is-no-such-model/infer")
    yield from _binary(good, whole)
    for name, body in {"no gzip": whole, "half of the gzip": gzip.compress(whole)[:-9], "a bomb of gzip": _bomb()}.items():
        yield Malformed(name, body, _CLIENT_ERRORS, headers=(("Content-Encoding", "gzip"),))
    yield Malformed("GET where POST is meant", b"", (405,), method="GET")


def _binary(good: PlainRequest, whole: bytes) -> Iterator[Malformed]:
    """Requests that lie about the sizes of binary tensors."""
    first = {key: value for key, value in good["inputs"][0].items() if key != "data"}
    odd = b"\xff" * (16 * math.prod(first["shape"]) + 1)  # the shape needs less in every type
    for name, length, content in (
        ("JSON that is longer than the body", len(whole) + 1, whole),
        ("a length of the JSON beyond all memory", 2**62, whole),
        ("bytes of no tensor", len(whole), whole + b"\x00"),
    ):
        yield Malformed(name, content, _CLIENT_ERRORS, headers=((JSON_BYTES, str(length)),))
    for name, size, content in (
        ("a tensor beyond all memory", 2**62, b""),
        ("a tensor of no bytes", 0, b""),
        ("a tensor of a negative size", -1, b""),
        ("a tensor of another size", len(odd), odd),
    ):
        head = json.dumps({"inputs": [{**first, "parameters": {"binary_data_size": size}}, *good["inputs"][1:]]}).encode()
        yield Malformed(name, head + content, _CLIENT_ERRORS, headers=((JSON_BYTES, str(len(head))),))


def _bomb() -> bytes:
    """A small body that decompresses to a large one."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(bytes(_MEBIBYTE)) for _ in range(_BOMB_MEBIBYTES)), packer.flush()])


def _nested(request: str, depth: int) -> bytes:
    """The request with nested lists in place of the placeholder."""
    return request.replace(json.dumps(_PLACEHOLDER), "[" * depth + "]" * depth).encode()
