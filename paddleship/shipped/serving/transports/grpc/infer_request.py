"""One request over gRPC, from its message to the future of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from paddleship.errors import RequestError
from paddleship.shipped.serving import time_limits
from paddleship.shipped.serving.asking import PendingAnswer
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.transports.grpc import tensors, wire
from paddleship.shipped.serving.transports.grpc.limits import UNCHECKED_BYTES, MessageLimits
from paddleship.shipped.serving.transports.grpc.messages import ModelInferRequest, ModelInferResponse

_TIMEOUT = "timeout"


class InferRequest(PendingAnswer):
    """One request: its message, and the future of its answer. `number` is the id in its message, once that is decoded."""

    def __init__(self, service: Service, limits: MessageLimits, content: bytes, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._service, self._limits, self._content = service, limits, content
        self.size, self._model = len(content), service.loaded()
        self.number, self._wanted = "", list[str]()

    def is_gone(self) -> bool:
        return self.answer.cancelled()

    def decode(self) -> Columns:
        """The columns of the message. Raises RequestError, and ServingError for another model, or a time limit that has passed."""
        content = self._content
        if len(content) > UNCHECKED_BYTES:
            wire.check(content, self._limits)
        try:
            message = ModelInferRequest.FromString(content)
        except DecodeError:
            raise RequestError("the message is not a ModelInferRequest: send one of the Open Inference Protocol") from None
        model = self._model = self._service.model(message.model_name, message.model_version or None)
        raw = tensors.wants_raw_tensors(message)
        files = [spec.name for spec in model.requests if spec.dtype == "bytes" and not raw]
        columns = model.check(tensors.tensors(message, files=files, most_rows=model.limits.max_batch), raw_tensors=raw)
        if _TIMEOUT in message.parameters:
            time_limits.check(tensors.value(message.parameters[_TIMEOUT]), self.arrived)
        self.number, self._wanted = (
            message.id,
            tensors.wanted(message, [spec.name for spec in (model.candidate.outputs if raw else model.outputs)]),
        )
        return columns

    def forget(self) -> None:
        """Let go of the message, which nobody wants an answer to any more, however long the request still waits for its turn."""
        self._content = b""

    def encode(self, outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]]) -> bytes:
        """The answer, with raw contents. Raises ServingError (UNSENDABLE)."""
        message = ModelInferResponse(model_name=self._model.candidate.model, model_version=self._model.version, id=self.number)
        if cuts:
            message.parameters["truncated"].string_param = orjson.dumps(cuts).decode()
        if absent := [name for name in self._wanted if name not in outputs]:
            raise ServingError(
                Kind.UNSENDABLE, f"output {absent[0]!r} cannot be made of outputs that hold NaN or infinity: send other values"
            )
        return tensors.encode(message, {name: outputs[name] for name in self._wanted or outputs})
