"""A server over gRPC, as the acceptance test sees it."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from paddleship.acceptance.transport import Malformed, Outputs, PlainAnswer, PlainRequest, Tensors
from paddleship.acceptance.transports.grpc import malformed, triton
from paddleship.acceptance.transports.grpc.client import GrpcClient

_UNFINISHED = 30  # messages at the same time
_MESSAGE_BYTES, _SENT_OF_EACH = 2**20, 60_000  # within the window in which HTTP/2 lets a client send unasked
_CONNECT_S, _SEND_S = 10, 0.03


@dataclass(frozen=True)
class GrpcServer:
    """The server of `model` at an address. `parameters` are those of its metadata over HTTP, which messages do not have."""

    host: str
    port: int
    model: str
    parameters: Mapping[str, Any]
    timeout_s: float = 30

    @property
    def transport(self) -> str:
        return "grpc"

    @property
    def refusals(self) -> Collection[int]:
        return malformed.REFUSALS

    def connect(self, *, timeout_s: float | None = None) -> GrpcClient:
        address = f"{self.host}:{self.port}"
        return GrpcClient(address, model=self.model, timeout_s=timeout_s or self.timeout_s, parameters=self.parameters)

    def encode(self, tensors: Tensors) -> bytes:
        return triton.raw_request(tensors, model=self.model)

    def decode(self, answer: bytes) -> Outputs:
        return triton.read_answer(answer)

    def encode_plain(self, request: PlainRequest) -> bytes:
        return triton.plain_request(request, model=self.model, files=self.parameters.get("base64", ()))

    def decode_plain(self, answer: bytes) -> PlainAnswer:
        return triton.plain_answer(answer)

    def malformed(
        self,
        good: PlainRequest,
        too_many: bytes | None,
        missing: Collection[str] = (),  # noqa: ARG002 a message has no null
    ) -> Iterator[Malformed]:
        return malformed.requests(self.encode_plain(good), good, too_many, model=self.model)

    def other_forms(self, tensors: Tensors, metadata: Mapping[str, Any]) -> Iterator[Malformed]:  # noqa: ARG002 all servers have this form
        if (body := triton.fields_request(tensors, model=self.model)) is not None:
            yield Malformed("values in the fields of their types", body, self.refusals)

    @contextmanager
    def unfinished(self) -> Iterator[None]:
        begun = malformed.half_sent(f"{triton.METHODS}ModelInfer", _SENT_OF_EACH, _MESSAGE_BYTES)
        with ExitStack() as opened:
            for sent in [begun] * _UNFINISHED + [b"", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00", begun[:40]] * 4:
                with suppress(OSError):
                    connection = opened.enter_context(socket.create_connection((self.host, self.port), timeout=_CONNECT_S))
                    connection.settimeout(_SEND_S)
                    connection.sendall(sent)
            yield
