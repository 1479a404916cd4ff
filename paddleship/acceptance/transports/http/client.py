"""Send requests to a server over one persistent HTTP connection."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from paddleship.acceptance.transport import Malformed, Outcome, Outputs, Reply, ServerError, Tensors
from paddleship.acceptance.transports.http.triton import TritonClient

_OUTCOMES: dict[int, Outcome] = {HTTPStatus.OK: Outcome.ANSWERED, HTTPStatus.SERVICE_UNAVAILABLE: Outcome.BUSY}


class HttpClient:
    """One connection for bytes, and where tensors are sent, another of an independent client."""

    def __init__(self, host: str, port: int, *, model: str, timeout_s: float) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self._path = f"/v2/models/{model}/infer"
        self._server, self._model, self._timeout_s = (host, port), model, timeout_s
        self._triton: TritonClient | None = None

    def ready(self) -> Reply:
        return self._exchange("GET", "/v2/health/ready", None)

    def metadata(self) -> Mapping[str, Any]:
        return self._tensor_client().metadata()

    def ask(self, tensors: Tensors) -> Outputs:
        return self._tensor_client().ask(tensors)

    def send(self, request: bytes) -> Reply:
        return self._exchange("POST", self._path, request)

    def provoke(self, request: Malformed) -> Reply:
        return self._exchange(request.method or "POST", request.path or self._path, request.body or None, dict(request.headers))

    def close(self) -> None:
        self._connection.close()
        if self._triton is not None:
            self._triton.close()

    def _tensor_client(self) -> TritonClient:
        if self._triton is None:
            self._triton = TritonClient(*self._server, model=self._model, timeout_s=self._timeout_s)
        return self._triton

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request. Raises ServerError if there is no answer."""
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = self._connection.getresponse()
            return Reply(_OUTCOMES.get(response.status, Outcome.FAILED), response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server does not answer ({type(error).__name__}: {error})") from None
