"""The time limit of a request: a header in milliseconds, or the parameter `timeout` of the protocol in microseconds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import expired

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


def of_parameters(request: Mapping[str, Any], arrived: float) -> float:
    """The same of the parameters of a request in JSON, where 0 is no limit. Raises RequestError, and ServingError (EXPIRED)."""
    parameters = request.get("parameters")
    if not isinstance(parameters, dict) or (value := parameters.get("timeout", 0)) == 0:
        return math.inf
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(f"the parameter 'timeout' is {str(value)[:40]!r}: send microseconds, a whole number; 0 for no limit")
    if (deadline := arrived + value / 1e6) < time.perf_counter():
        raise expired()
    return deadline
