"""The time limit of a request in a header, in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from paddleship.errors import RequestError

HEADER = "Request-Timeout-Ms"
_HEADER = HEADER.lower().encode()
_MOST_DIGITS = 12


def of_headers(headers: Mapping[bytes, bytes], arrived: float) -> float:
    """The time at which a request that arrived then is out of time; infinite without a limit. Raises RequestError."""
    value = headers.get(_HEADER)
    if value is None:
        return math.inf
    if not value.isdigit() or len(value) > _MOST_DIGITS or not int(value):
        raise RequestError(f"the header {HEADER} is {value.decode('latin-1')[:40]!r}: send milliseconds, a whole number of at least 1")
    return arrived + int(value) / 1e3
