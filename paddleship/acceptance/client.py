"""Send bytes to a server over one persistent connection."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from paddleship.errors import PaddleshipError


class ServerError(PaddleshipError):
    """The server could not be reached or returned an error; `status` is its HTTP status, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """One connection to one server. Not thread-safe."""

    def __init__(self, host: str, port: int, *, model: str, timeout_s: float = 30) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self.path = f"/v2/models/{model}/infer"

    def get(self, path: str) -> tuple[int, bytes]:
        return self.exchange("GET", path, None)

    def send(self, body: bytes) -> tuple[int, bytes]:
        return self.exchange("POST", self.path, body)

    def close(self) -> None:
        self._connection.close()

    def exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Send one request. Returns status and body of the answer. Raises ServerError if there is none."""
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server does not answer ({type(error).__name__}: {error})") from None
