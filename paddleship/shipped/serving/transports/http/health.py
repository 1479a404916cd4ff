"""Ask a server over HTTP whether it is ready."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException

_TIMEOUT_S = 2


def is_ready(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
