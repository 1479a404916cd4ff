"""tritonclient: an independent client of the Open Inference Protocol, in its binary form, which is the default, and in JSON."""

from __future__ import annotations

import json
from typing import Any

from paddleship.acceptance.datatypes import as_text, datatype, in_json
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
            result = self._client.infer(self._model, _inputs(tensors, binary=True))
        except Exception as failure:  # exceptions of tritonclient, gevent and the socket
            raise _explained(failure) from None
        return _outputs(result)

    def close(self) -> None:
        self._client.close()


def request_body(tensors: Tensors) -> bytes:
    """The request that the client would send in JSON, for an answer in JSON."""
    from tritonclient.http import InferenceServerClient

    body, _ = InferenceServerClient.generate_request_body(_inputs(tensors, binary=False))
    return _for_json(body)


def binary_body(tensors: Tensors) -> tuple[bytes, int]:
    """The request that the client would send with binary tensors, for an answer in JSON; and the bytes of its JSON."""
    from tritonclient.http import InferenceServerClient

    body, length = InferenceServerClient.generate_request_body(_inputs(tensors, binary=True))
    head = _for_json(body[:length])
    return head + body[length:], len(head)


def read_answer(body: bytes) -> Outputs:
    """The outputs that the client reads from an answer."""
    from tritonclient.http import InferenceServerClient

    return _outputs(InferenceServerClient.parse_response_body(body))


def _for_json(request: bytes) -> bytes:
    """A request without the parameter by which the client asks for binary outputs wherever no outputs are named.

    A missing number is null, because JSON has no NaN, which the client writes.
    """
    left = {key: value for key, value in json.loads(request, parse_constant=lambda _: None).items() if key != "parameters"}
    return json.dumps(left).encode()


def _inputs(tensors: Tensors, *, binary: bool) -> list[Any]:
    from tritonclient.http import InferInput

    made = []
    for name, array in tensors.items():
        item = InferInput(name, list(array.shape), datatype(array))
        made.append(item.set_data_from_numpy(array if binary else in_json(array), binary_data=binary))
    return made


def _outputs(result: Any) -> Outputs:
    return {item["name"]: as_text(result.as_numpy(item["name"])) for item in result.get_response()["outputs"]}


def _explained(failure: Exception) -> ServerError:
    status = getattr(failure, "status", None)
    said = status() if callable(status) else None
    return ServerError(f"the server's answer is not of the Open Inference Protocol ({type(failure).__name__}: {failure})", int(said or 0))
