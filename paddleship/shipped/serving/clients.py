"""A limit on the requests that one client may have in flight, so that none takes the whole server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.options import Tokens

_HOST_BITS = 64  # of an address of version 6, which a client may choose itself


class Clients:
    """Counts what each client has in flight over all transports, for one thread: `most` requests each.

    A client is one of the tokens; without tokens it is an address, or a network of version 6.
    """

    def __init__(self, most: int, tokens: Tokens | None) -> None:
        self._most, self._tokens = most, tokens
        self._requests: Counter[int | str] = Counter()

    @contextmanager
    def request(self, authorization: bytes, address: str) -> Iterator[None]:
        """A request of the client with this `Authorization` at this address. Raises ServingError (CLIENT_LIMIT)."""
        client = self._tokens.index(authorization) if self._tokens is not None else _network(address)
        if client is None:
            yield  # without a right to ask, which is refused elsewhere
            return
        if self._requests[client] >= self._most:
            many = f"{self._most} request{'s' if self._most > 1 else ''}"
            raise ServingError(Kind.CLIENT_LIMIT, f"this client has {many} in flight, its limit: wait for an answer, then try again")
        self._requests[client] += 1
        try:
            yield
        finally:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client]


def _network(address: str) -> str:
    """What counts as one client at an address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or int(found) >> _HOST_BITS)
