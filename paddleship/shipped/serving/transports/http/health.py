"""Ask a server over HTTP, or over TLS if it speaks that, whether it is ready."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException

_TIMEOUT_S = 2


def is_ready(host: str, port: int) -> bool:
    try:
        return _answers(HTTPConnection(host, port, timeout=_TIMEOUT_S))
    except ConnectionRefusedError:
        return False
    except (OSError, HTTPException):
        return _is_ready_over_tls(host, port)


def _is_ready_over_tls(host: str, port: int) -> bool:
    """The server is asked by its address, for which its certificate need not be."""
    import ssl
    from http.client import HTTPSConnection

    try:
        return _answers(HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=ssl._create_unverified_context()))  # noqa: S323
    except (OSError, HTTPException):
        return False


def _answers(connection: HTTPConnection) -> bool:
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    finally:
        connection.close()
