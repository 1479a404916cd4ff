"""tritonclient: an independent client of the Open Inference Protocol over gRPC, with raw contents, and its messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from paddleship.acceptance.datatypes import array_type, as_text, datatype, from_json
from paddleship.acceptance.transport import Outputs, PlainAnswer, PlainRequest, ServerError, Tensors

OPTIONS = [  # of a channel to a server that is reached without a proxy
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
METHODS = "/inference.GRPCInferenceService/"
_FIELDS = {  # of InferTensorContents
    **{"BOOL": "bool", "INT8": "int", "INT16": "int", "INT32": "int", "INT64": "int64", "UINT8": "uint"},
    **{"FP32": "fp32", "FP64": "fp64", "BYTES": "bytes"},
}


class TritonClient:
    """One client of one server, for one thread."""

    def __init__(self, address: str, *, model: str, timeout_s: float = 60) -> None:
        from tritonclient.grpc import InferenceServerClient

        self._client, self._model, self._timeout_s = InferenceServerClient(address, channel_args=OPTIONS), model, timeout_s

    def metadata(self) -> dict[str, Any]:
        """The server's metadata of its model. Raises ServerError."""
        try:
            return dict(self._client.get_model_metadata(self._model, as_json=True, client_timeout=self._timeout_s))
        except Exception as failure:
            raise _explained(failure) from None

    def ask(self, tensors: Tensors) -> Outputs:
        """All outputs by name; text as objects. Raises ServerError."""
        try:
            return _outputs(self._client.infer(self._model, _inputs(tensors), client_timeout=self._timeout_s))
        except Exception as failure:
            raise _explained(failure) from None

    def close(self) -> None:
        self._client.close()


def message(**fields: Any) -> bytes:
    """A ModelInferRequest of these fields."""
    from tritonclient.grpc import service_pb2

    return bytes(service_pb2.ModelInferRequest(**fields).SerializeToString())


def raw_request(tensors: Tensors, *, model: str) -> bytes:
    """The request that the client would send."""
    made = _inputs(tensors)
    return message(
        model_name=model, inputs=[item._get_tensor() for item in made], raw_input_contents=[item._get_content() for item in made]
    )


def fields_request(tensors: Tensors, *, model: str) -> bytes | None:
    """The request with values in the fields of their types; None if there is none for a type."""
    if not all(datatype(array) in _FIELDS for array in tensors.values()):
        return None
    return message(model_name=model, inputs=[_item(name, datatype(array), array) for name, array in tensors.items()])


def plain_request(request: PlainRequest, *, model: str, files: Collection[str]) -> bytes:
    """A request of plain values, raw where no field has their type; those of `files` are base64."""
    tensors = {}
    for item in request["inputs"]:
        values = from_json(item["data"]) if item["name"] in files else item["data"]
        tensors[item["name"]] = np.array(values, array_type(item["datatype"])).reshape(item["shape"])
    return fields_request(tensors, model=model) or raw_request(tensors, model=model)


def read_answer(answer: bytes) -> Outputs:
    """The outputs that the client reads from an answer."""
    from tritonclient.grpc import InferResult, service_pb2

    return _outputs(InferResult(service_pb2.ModelInferResponse.FromString(answer)))


def plain_answer(answer: bytes) -> PlainAnswer:
    outputs = read_answer(answer)
    return {
        "outputs": [
            {"name": name, "datatype": datatype(array), "shape": list(array.shape), "data": array.ravel().tolist()}
            for name, array in outputs.items()
        ]
    }


def _item(name: str, kind: str, array: np.ndarray[Any, Any]) -> Mapping[str, Any]:
    values = [value.encode() if isinstance(value, str) else value for value in array.ravel().tolist()]
    return {"name": name, "datatype": kind, "shape": array.shape, "contents": {f"{_FIELDS[kind]}_contents": values}}


def _inputs(tensors: Tensors) -> list[Any]:
    from tritonclient.grpc import InferInput

    made = []
    for name, array in tensors.items():
        item = InferInput(name, list(array.shape), datatype(array))
        made.append(item.set_data_from_numpy(array))
    return made


def _outputs(result: Any) -> Outputs:
    return {item.name: as_text(result.as_numpy(item.name)) for item in result.get_response().outputs}


def _explained(failure: Exception) -> ServerError:
    return ServerError(f"the server's answer is not of the Open Inference Protocol ({type(failure).__name__}: {failure})")
