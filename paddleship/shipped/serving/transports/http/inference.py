"""A served model in JSON: the metadata of the protocol, and an answer to the body of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from paddleship.errors import RequestError
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http import limits, protocol


class JsonModel:
    """A served model that takes and gives JSON; `limits` are those of a body. `batching`: requests that wait may share a batch."""

    def __init__(self, model: ServedModel, *, batching: bool = False) -> None:
        self.model, self._batching = model, batching
        self.limits = limits.of_bodies(
            model.requests,
            max_batch=model.limits.max_batch,
            longest_text=model.longest_text,
            largest_bytes=model.largest_bytes,
            dimensions=model.candidate.dimensions,
            memory_bytes=model.limits.memory_bytes,
        )

    @property
    def _binary(self) -> list[str]:
        """The columns of bytes."""
        return [spec.name for spec in self.model.requests if spec.dtype == "bytes"]

    def metadata(self) -> dict[str, Any]:
        """The model metadata of the protocol; the version is the beginning of the candidate's digest.

        `answer` is params.answer, by which each text of the output of that name is made. `base64` names the inputs that JSON holds as
        base64, and `raw_body` the one that a body may be as it is.
        """
        answer = {"answer": self.model.candidate.answer} if self.model.candidate.answer else {}
        binary = {"base64": self._binary} if self._binary else {}
        raw = {"raw_body": self.model.requests[0].name} if self.limits.raw else {}
        return {
            "name": self.model.candidate.model,
            "versions": [self.model.version],
            "platform": self.model.candidate.runtime,
            "inputs": [protocol.describe(spec) for spec in self.model.requests],
            "outputs": [protocol.describe(spec) for spec in self.model.outputs],
            "parameters": {
                "candidate_digest": self.model.candidate.digest,
                "max_batch": self.limits.max_batch,
                "max_bytes": self.limits.max_bytes,
                "batching": self._batching,
                **answer,
                **binary,
                **raw,
            },
        }

    def parse(self, body: bytes | bytearray) -> Any:
        """The JSON of a request. Raises RequestError."""
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            not_finite = error.doc[error.pos :].startswith(("NaN", "Infinity"))
            reason = "JSON has no NaN or Infinity" if not_finite else str(error)
            file = ", or the file as the whole body, with its own content type" if self.limits.raw else ""
            raise RequestError(f"the request is not JSON ({reason}): send an Open Inference Protocol request{file}") from None

    def columns(self, request: Any) -> Columns:
        """The columns of a request in JSON. Raises RequestError."""
        try:
            columns = self.model.check(protocol.tensors(request, binary=self._binary))
        except RecursionError:
            raise RequestError("the request is nested too deeply to be read: send flat data") from None
        if not isinstance(request.get("id", ""), str):
            raise RequestError(f"'id' must be text (got {type(request['id']).__name__}): send a string, or leave it out")
        return columns

    def columns_of_raw(self, body: bytes | bytearray) -> Columns:
        """The columns of a request whose body is the value of the one column of the model. Raises RequestError."""
        return self.model.check([protocol.RawTensor(self.model.requests[0].name, body)])

    def wanted(self, request: Mapping[str, Any]) -> Sequence[str]:
        """The names of the outputs that a request asks for; empty for all. Raises RequestError."""
        asked, known = request.get("outputs"), [spec.name for spec in self.model.outputs]
        if asked is None or asked == []:
            return ()
        if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
            raise RequestError("'outputs' must be a list of {\"name\": …}: leave it out for all outputs")
        for item in asked:
            if item.get("name") not in known:
                raise RequestError(f"there is no output {item.get('name')!r}: this model gives {', '.join(known)}")
        return [item["name"] for item in asked]

    def reply(
        self, outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]] = (), *, number: str | None = None, wanted: Sequence[str] = ()
    ) -> bytes:
        """The answer to a request in JSON; `number` is the id that it came with. Raises ServingError."""
        answer: dict[str, Any] = {"model_name": self.model.candidate.model, "model_version": self.model.version}
        if number is not None:
            answer["id"] = number
        if cuts:
            answer["parameters"] = {"truncated": cuts}
        named = {name: protocol.encode_tensor(name, values) for name, values in outputs.items()}
        encoded = orjson.dumps({**answer, "outputs": [named[name] for name in wanted or named]}, option=orjson.OPT_SERIALIZE_NUMPY)
        if b"null" in encoded:  # which orjson writes for NaN and infinity, and a text may hold
            _check_sendable(outputs)
        return encoded


def _check_sendable(outputs: Mapping[str, Any]) -> None:
    for name, array in outputs.items():
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ServingError(Kind.UNSENDABLE, f"output {name!r} holds NaN or infinity, which JSON cannot represent: send other values")
