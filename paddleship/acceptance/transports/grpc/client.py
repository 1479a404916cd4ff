"""Send requests to a server over one gRPC channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddleship.acceptance.transport import Malformed, Outcome, Outputs, Reply, ServerError, Tensors
from paddleship.acceptance.transports.grpc.triton import METHODS, OPTIONS, TritonClient

_OUTCOMES = {"OK": Outcome.ANSWERED, "UNAVAILABLE": Outcome.BUSY}


class GrpcClient:
    """One channel for bytes, and where tensors are sent, another of an independent client. `parameters` complete the metadata."""

    def __init__(self, address: str, *, model: str, timeout_s: float, parameters: Mapping[str, Any]) -> None:
        import grpc

        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._address, self._model, self._timeout_s, self._parameters = address, model, timeout_s, parameters
        self._triton: TritonClient | None = None

    def ready(self) -> Reply:
        reply = self._exchange("ServerReady", b"")
        return reply if reply.payload else Reply(Outcome.FAILED, reply.code, b"not ready")  # false is the default, which is not sent

    def metadata(self) -> Mapping[str, Any]:
        return {**self._tensor_client().metadata(), "parameters": self._parameters}

    def ask(self, tensors: Tensors) -> Outputs:
        return self._tensor_client().ask(tensors)

    def send(self, request: bytes) -> Reply:
        return self._exchange("ModelInfer", request)

    def provoke(self, request: Malformed) -> Reply:
        return self._exchange(request.path or "ModelInfer", request.body)

    def close(self) -> None:
        self._channel.close()
        if self._triton is not None:
            self._triton.close()

    def _tensor_client(self) -> TritonClient:
        if self._triton is None:
            self._triton = TritonClient(self._address, model=self._model, timeout_s=self._timeout_s)
        return self._triton

    def _exchange(self, method: str, request: bytes) -> Reply:
        """Send one message. Raises ServerError if there is no server."""
        import grpc

        try:
            return Reply(Outcome.ANSWERED, 0, self._channel.unary_unary(METHODS + method)(request, timeout=self._timeout_s))
        except grpc.RpcError as error:
            code, details = error.code(), str(error.details())
            if code is grpc.StatusCode.UNAVAILABLE and ("connect" in details or "Socket closed" in details):
                raise ServerError(f"the server does not answer ({details})") from None
            return Reply(_OUTCOMES.get(code.name, Outcome.FAILED), code.value[0], details.encode())
