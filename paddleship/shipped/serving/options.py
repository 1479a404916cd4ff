"""How a server is run, beside what its image says: who may ask it, its certificate, and its log."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from pathlib import Path

from paddleship.errors import BadInput

_LEAST_CHARACTERS = 16


@dataclass(frozen=True)
class Tokens:
    """The tokens with which clients may ask; each is good."""

    values: tuple[bytes, ...]

    def allow(self, authorization: bytes) -> bool:
        """Whether a value of the field `Authorization` has one of them."""
        return self.index(authorization) is not None

    def index(self, authorization: bytes) -> int | None:
        """Which of them a value of the field has, or none. Takes as long whichever it is, and however much of it is right."""
        scheme, _, token = authorization.partition(b" ")
        right = [hmac.compare_digest(token.strip(), value) for value in self.values]
        return right.index(True) if scheme.lower() == b"bearer" and any(right) else None


@dataclass(frozen=True)
class Options:
    """Without `tokens`, everyone may ask. `certificate` and `key` are files of TLS. `logs_requests`: the log has a line for each one.

    A client may have so many `requests_per_client` in flight; None: any number. `collector` is the address that spans are
    sent to, as those of `service_name`, or else of the model.
    """

    tokens: Tokens | None = None
    certificate: Path | None = None
    key: Path | None = None
    logs_requests: bool = False
    requests_per_client: int | None = None
    collector: str | None = None
    service_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise BadInput("TLS needs a certificate and its key: give both --tls-certificate and --tls-key, or neither")
        for path in (self.certificate, self.key):
            if path is not None:
                _read(path)


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file, one a line. Raises BadInput."""
    lines = [line.strip() for line in _read(path).splitlines()]
    tokens = [line for line in lines if line]
    if not tokens:
        raise BadInput(f"{path} holds no token: write one into it, for example with `openssl rand -hex 32`")
    for number, token in enumerate(tokens, 1):
        if len(token) < _LEAST_CHARACTERS or not token.isascii() or not all(33 <= code < 127 for code in token):
            raise BadInput(
                f"token {number} in {path} is not one ({len(token)} bytes): use {_LEAST_CHARACTERS} or more ASCII characters without spaces"
            )
    return Tokens(tuple(tokens))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): mount it so that the user of the server can read it") from None
