"""tritonclient: an independent client of the Open Inference Protocol, here in its JSON form."""

from __future__ import annotations

from typing import Any

from paddleship.acceptance.datatypes import datatype, in_json
from paddleship.acceptance.transport import Outputs, ServerError, Tensors


class TritonClient:
    """One client of one server, for one thread."""

    def __init__(self, host: str, port: int, *, model: str, timeout_s: float = 60) -> None:
        from tritonclient.http import InferenceServerClient

        self._client = InferenceServerClient(f"{host}:{port}", connection_timeout=timeout_s, network_timeout=timeout_s)
        self._model = model

    def metadata(self) -> dict[str, Any]:
        """The server's metadata of its model. Raises ServerError."""
        try:
            return dict(self._client.get_model_metadata(self._model))
        except Exception as failure:
            raise _explained(failure) from None

    def ask(self, tensors: Tensors) -> Outputs:
        """All outputs by name; text as objects. Raises ServerError."""
        try:
            result = self._client.infer(self._model, _inputs(tensors))
        except Exception as failure:  # exceptions of tritonclient, gevent and the socket
            raise _explained(failure) from None
        return _outputs(result)

    def close(self) -> None:
        self._client.close()


def request_body(tensors: Tensors) -> bytes:
    """The request that the client would send."""
    from tritonclient.http import InferenceServerClient

    body, _ = InferenceServerClient.generate_request_body(_inputs(tensors))
    return bytes(body)


def read_answer(body: bytes) -> Outputs:
    """The outputs that the client reads from an answer."""
    from tritonclient.http import InferenceServerClient

    return _outputs(InferenceServerClient.parse_response_body(body))


def _inputs(tensors: Tensors) -> list[Any]:
    from tritonclient.http import InferInput

    made = []
    for name, array in tensors.items():
        item = InferInput(name, list(array.shape), datatype(array))
        made.append(item.set_data_from_numpy(in_json(array), binary_data=False))
    return made


def _outputs(result: Any) -> Outputs:
    return {item["name"]: result.as_numpy(item["name"]) for item in result.get_response()["outputs"]}


def _explained(failure: Exception) -> ServerError:
    status = getattr(failure, "status", None)
    said = status() if callable(status) else None
    return ServerError(f"the server's answer is not of the Open Inference Protocol ({type(failure).__name__}: {failure})", int(said or 0))
