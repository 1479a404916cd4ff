"""What an acceptance test needs of a protocol: a server at an address, connections to it, and the requests that it must refuse.

Each folder in `paddleship/acceptance/transports/` implements it for one protocol; the logic of the test knows only this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np

from paddleship.errors import PaddleshipError

Tensors = Mapping[str, np.ndarray[Any, Any]]
Outputs = dict[str, np.ndarray[Any, Any]]
PlainRequest = Mapping[str, Any]  # {"inputs": [{"name", "datatype", "shape", "data"}, …]}, as a person would write it
PlainAnswer = Mapping[str, Any]  # {"outputs": [{"name", "datatype", "shape", "data"}, …]} and what the protocol adds


class ServerError(PaddleshipError):
    """The server could not be reached or returned an error; `code` is that of its protocol, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Outcome(Enum):
    ANSWERED = auto()
    BUSY = auto()  # no room now: the same request may be answered later
    FAILED = auto()  # refused, or an error of the server


@dataclass(frozen=True)
class Reply:
    """The reply to one request: what it means, the code of the protocol, and the bytes that came."""

    outcome: Outcome
    code: int
    payload: bytes

    def text(self, characters: int) -> str:
        """The beginning of what came, for people."""
        return self.payload[:characters].decode(errors="replace")


@dataclass(frozen=True)
class Malformed:
    """A request that a server must refuse, and the codes that it may do so with; `method`, `path` and `headers` where they are unusual.

    Also a good request in an unusual form.
    """

    name: str
    body: bytes
    allowed: Collection[int]
    method: str = ""
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Client(Protocol):
    """One connection to the server of one model. Not thread-safe. Every method but `close` raises ServerError if no reply comes."""

    def ready(self) -> Reply:
        """Ask whether the server is ready: then it is ANSWERED."""

    def metadata(self) -> Mapping[str, Any]:
        """The server's metadata of its model. Raises ServerError for any other answer."""

    def ask(self, tensors: Tensors) -> Outputs:
        """All outputs by name, as an independent client of the protocol reads them; text as objects. Raises ServerError for a refusal."""

    def send(self, request: bytes) -> Reply:
        """Send an encoded request."""

    def provoke(self, request: Malformed) -> Reply:
        """Send a malformed request."""

    def close(self) -> None: ...


class Server(Protocol):
    """The server of one model, and how a client of its protocol writes requests and reads answers."""

    @property
    def transport(self) -> str:
        """The name of the transport."""

    @property
    def refusals(self) -> Collection[int]:
        """The codes for requests that are the client's error."""

    def connect(self, *, timeout_s: float | None = None) -> Client:
        """A new connection; by default with the timeout of the server."""

    def encode(self, tensors: Tensors) -> bytes:
        """The request that an independent client of the protocol would send."""

    def decode(self, answer: bytes) -> Outputs:
        """The outputs that this client reads from an answer."""

    def encode_plain(self, request: PlainRequest) -> bytes:
        """A request of plain values."""

    def decode_plain(self, answer: bytes) -> PlainAnswer:
        """An answer as plain values."""

    def malformed(self, good: PlainRequest, too_many: bytes | None, missing: Collection[str] = ()) -> Iterator[Malformed]:
        """Requests made from a good one, and `too_many`, which has one row more than the server accepts.

        In the inputs `missing`, numbers may be missing.
        """

    def other_forms(self, tensors: Tensors, metadata: Mapping[str, Any]) -> Iterator[Malformed]:
        """The same request, of one row, in every other form that the server says it takes; good or malformed as its tensors are."""

    def unfinished(self) -> AbstractContextManager[None]:
        """Leave requests unfinished, answers unread and connections silent, all at once, while the block runs."""


def title(transport: str) -> str:
    """The name of a transport for people."""
    return "gRPC" if transport == "grpc" else transport.upper()
