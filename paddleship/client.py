"""A client of the model server, for acceptance: HTTP over one kept connection, answers as arrays."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from paddleship.errors import PaddleshipError
from paddleship.preprocess import Preprocess
from paddleship.runtimes import Arrays
from paddleship.serving import protocol
from paddleship.spec import TensorSpec


class ServerError(PaddleshipError):
    """The server could not be reached or answered with an error; `status` is its HTTP code, 0 when there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """One connection to one server. Not thread-safe."""

    def __init__(self, host: str, port: int, *, model: str, timeout_s: float = 30) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self._path = f"/v2/models/{model}/infer"

    def get(self, path: str) -> tuple[int, bytes]:
        return self._exchange("GET", path, None)

    def infer(self, body: bytes, outputs: Sequence[TensorSpec]) -> Arrays:
        """Send a request and give the outputs that `outputs` names, with their dtypes. Raises ServerError."""
        status, answer = self.send(body)
        if status != 200:
            raise ServerError(f"the server answered {status} ({answer[:300].decode(errors='replace')})", status)
        return decode_answer(answer, outputs)

    def send(self, body: bytes) -> tuple[int, bytes]:
        return self._exchange("POST", self._path, body)

    def close(self) -> None:
        self._connection.close()

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServerError(f"the server does not answer ({type(error).__name__}: {error})") from None


def decode_answer(answer: bytes, outputs: Sequence[TensorSpec]) -> Arrays:
    """The arrays of one answer's JSON, without the class names that the server adds."""
    given = {item["name"]: item for item in orjson.loads(answer)["outputs"]}
    names = [name for name in given if name != "label" or any(spec.name == "label" for spec in outputs)]
    return {name: _array(given[name]) for name in names}


def encode_request(preprocess: Preprocess, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The rows of `columns` as one request's JSON: text as it is, tensors padded to one shape."""
    if all(spec.dtype == "str" for spec in preprocess.requests):
        tensors: Mapping[str, Any] = {spec.name: list(columns[spec.name]) for spec in preprocess.requests}
    else:
        tensors = preprocess.collate(preprocess.encode(columns))
    items = [protocol.encode_tensor(name, values) for name, values in tensors.items()]
    return orjson.dumps({"inputs": items}, option=orjson.OPT_SERIALIZE_NUMPY)


def _array(item: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    decoded = np.asarray(protocol.decode_tensor(item))
    wire = {datatype: name for name, datatype in protocol.DATATYPES.items()}[item["datatype"]]
    return decoded.astype(wire)
