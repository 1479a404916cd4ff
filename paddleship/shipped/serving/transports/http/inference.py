"""A served model over HTTP: the metadata of the protocol, and an answer to the body of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from paddleship.errors import RequestError
from paddleship.shipped.serving.columns import RAW_TENSORS, Columns
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http import limits, outputs, protocol
from paddleship.shipped.serving.transports.http.outputs import Answer, Wanted

_ALL = Wanted()


class JsonModel:
    """A served model that takes and gives JSON and binary tensors. `batching`: requests that wait may share a batch.

    `limits` are those of a body. So many `processes` of the server have the model.
    """

    def __init__(self, model: ServedModel, *, batching: bool = False, processes: int = 1) -> None:
        self.model, self._batching, self._processes = model, batching, processes
        self.limits = limits.of_bodies(
            model.requests,
            max_batch=model.limits.max_batch,
            longest_text=model.longest_text,
            largest_bytes=model.largest_bytes,
            dimensions=model.candidate.dimensions,
            memory_bytes=model.limits.memory_bytes,
        )

    @property
    def _files(self) -> list[str]:
        """The columns of bytes."""
        return [spec.name for spec in self.model.requests if spec.dtype == "bytes"]

    def metadata(self) -> dict[str, Any]:
        """The model metadata of the protocol; the version is the beginning of the candidate's digest.

        `answer` is params.answer, by which each text of the output of that name is made. `base64` names the inputs that JSON holds as
        base64, `missing` those whose numbers may be missing, and `raw_body` the one that a body may be as it is. `raw_tensors` are the
        inputs of the model where it has a preprocess.
        """
        answer = {"answer": self.model.candidate.answer} if self.model.candidate.answer else {}
        files = {"base64": self._files} if self._files else {}
        missing = {"missing": [*self.model.missing]} if self.model.missing else {}
        tensors = {RAW_TENSORS: [protocol.describe(spec) for spec in self.model.raw_inputs]} if self.model.raw_inputs else {}
        processes = {"processes": self._processes} if self._processes > 1 else {}
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
                **processes,
                **tensors,
                **answer,
                **files,
                **missing,
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

    def columns(self, request: Any, binary: bytes | bytearray = b"") -> Columns:
        """The columns of a request in JSON, which `binary` follows. Raises RequestError."""
        raw = isinstance(request, dict) and outputs.wants_raw_tensors(request)
        files, missing = ((), ()) if raw else (self._files, self.model.missing)
        tensors = protocol.tensors(request, binary, files=files, missing=missing, most_rows=self.limits.max_batch)
        columns = self.model.check(tensors, raw_tensors=raw)
        if not isinstance(request.get("id", ""), str):
            raise RequestError(f"'id' must be text (got {type(request['id']).__name__}): send a string, or leave it out")
        return columns

    def columns_of_raw(self, body: bytes | bytearray) -> Columns:
        """The columns of a request whose body is the value of the one column of the model. Raises RequestError."""
        return self.model.check([protocol.RawTensor(self.model.requests[0].name, body)])

    def wanted(self, request: Mapping[str, Any]) -> Wanted:
        """The outputs that a request asks for. Raises RequestError."""
        known = self.model.candidate.outputs if outputs.wants_raw_tensors(request) else self.model.outputs
        return outputs.wanted(request, [spec.name for spec in known])

    def reply(
        self, results: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]] = (), *, number: str | None = None, wanted: Wanted = _ALL
    ) -> Answer:
        """The answer to a request; `number` is the id that it came with. Raises ServingError."""
        head: dict[str, Any] = {"model_name": self.model.candidate.model, "model_version": self.model.version}
        if number is not None:
            head["id"] = number
        if cuts:
            head["parameters"] = {"truncated": cuts}
        return outputs.encode(head, results, wanted)
