"""A server over HTTP, as the acceptance test sees it."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from paddleship.acceptance.transport import Malformed, Outputs, PlainAnswer, PlainRequest, Tensors
from paddleship.acceptance.transports.http import malformed, triton
from paddleship.acceptance.transports.http.client import HttpClient

_UNFINISHED = 30  # bodies at the same time
_BODY_BYTES, _SENT_OF_EACH = 31 * 2**20, 4 * 2**20
_RAW_TYPES = ("application/x-www-form-urlencoded", "application/octet-stream")  # the first is what curl sends
_CONNECT_S, _SEND_S = 10, 0.03  # the server need not read a refused body


@dataclass(frozen=True)
class HttpServer:
    """The server of `model` at an address."""

    host: str
    port: int
    model: str
    timeout_s: float = 30

    @property
    def transport(self) -> str:
        return "http"

    @property
    def refusals(self) -> Collection[int]:
        return range(400, 500)

    def connect(self, *, timeout_s: float | None = None) -> HttpClient:
        return HttpClient(self.host, self.port, model=self.model, timeout_s=timeout_s or self.timeout_s)

    def encode(self, tensors: Tensors) -> bytes:
        return triton.request_body(tensors)

    def decode(self, answer: bytes) -> Outputs:
        return triton.read_answer(answer)

    def encode_plain(self, request: PlainRequest) -> bytes:
        return json.dumps(request, ensure_ascii=False).encode()

    def decode_plain(self, answer: bytes) -> PlainAnswer:
        plain: PlainAnswer = json.loads(answer)
        return plain

    def malformed(self, good: PlainRequest, too_many: bytes | None, missing: Collection[str] = ()) -> Iterator[Malformed]:
        return malformed.requests(good, too_many, missing)

    def other_forms(self, tensors: Tensors, metadata: Mapping[str, Any]) -> Iterator[Malformed]:
        body, json_bytes = triton.binary_body(tensors)
        yield Malformed("binary tensors", body, self.refusals, headers=((malformed.JSON_BYTES, str(json_bytes)),))
        if (name := metadata.get("parameters", {}).get("raw_body")) is not None:
            (value,) = tensors[name]
            for kind in _RAW_TYPES:
                yield Malformed(f"the bytes as the whole body ({kind})", value, self.refusals, headers=(("Content-Type", kind),))

    @contextmanager
    def unfinished(self) -> Iterator[None]:
        head = f"POST /v2/models/{self.model}/infer HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {_BODY_BYTES}\r\n\r\n".encode()
        with ExitStack() as opened:
            for sent in [head + b"1" * _SENT_OF_EACH] * _UNFINISHED + [b"", b"POST ", b"\x16\x03\x01\x02\x00", head[:-2]] * 4:
                with suppress(OSError):
                    connection = opened.enter_context(socket.create_connection((self.host, self.port), timeout=_CONNECT_S))
                    connection.settimeout(_SEND_S)
                    connection.sendall(sent)
            yield
