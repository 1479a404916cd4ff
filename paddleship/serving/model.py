"""One loaded candidate that answers requests; for one thread at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from paddleship import preprocess, runtimes
from paddleship.candidate import Candidate
from paddleship.errors import PaddleshipError, RequestError
from paddleship.serving import protocol
from paddleship.spec import TensorSpec

_WARM_BATCHES = (1, 2, 8)


class AnswerError(PaddleshipError):
    """The model answered with something that cannot be sent."""


class ServedModel:
    """A candidate with its preprocessing and runtime. Loading checks every file's hash."""

    def __init__(self, folder: Path, *, max_batch: int) -> None:
        self.candidate = Candidate.load(folder)
        self._version = self.candidate.digest[:12]
        self._max_batch = max_batch
        self._preprocess = preprocess.build(self.candidate.preprocess, self.candidate.inputs)
        self._runtime = runtimes.load(folder)

    def warm_up(self) -> None:
        """Answer zeros of the shapes that were seen in the data, since a runtime's first call of a shape is slow."""
        for size, shapes in itertools.product(_WARM_BATCHES, self.candidate.warm_shapes):
            batch = {spec.name: np.full((size, *shapes[spec.name][1:]), spec.low or 0, spec.numpy_dtype) for spec in self.candidate.inputs}
            self._runtime.run(batch)

    def metadata(self) -> dict[str, Any]:
        """The model metadata of the protocol, with the candidate's digest as its version."""
        outputs = [protocol.describe(spec) for spec in self.candidate.outputs]
        if self.candidate.labels:
            outputs.append(protocol.describe(TensorSpec("label", "str", ("batch",))))
        return {
            "name": self.candidate.model,
            "versions": [self._version],
            "platform": self.candidate.runtime,
            "inputs": [protocol.describe(spec) for spec in self._preprocess.requests],
            "outputs": outputs,
            "parameters": {"candidate_digest": self.candidate.digest},
        }

    def answer(self, body: bytes) -> bytes:
        """One request's JSON to one answer's JSON. Raises RequestError for what the client can mend."""
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the request is not JSON ({error}): send the Open Inference Protocol's form") from None
        columns = protocol.decode_request(request, self._preprocess.requests, max_batch=self._max_batch)
        outputs = self.predict(columns)
        answer = {"model_name": self.candidate.model, "model_version": self._version}
        if "id" in request:
            answer["id"] = request["id"]
        named = [protocol.encode_tensor(name, _sendable(name, values)) for name, values in outputs.items()]
        return orjson.dumps({**answer, "outputs": _wanted(named, request.get("outputs"))}, option=orjson.OPT_SERIALIZE_NUMPY)

    def predict(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Columns of requests to outputs by name, with the class name of each row as `label` for a classifier. Raises RequestError."""
        outputs: dict[str, Any] = dict(self._runtime.run(self._preprocess.collate(self._preprocess.encode(columns))))
        if self.candidate.labels:
            outputs["label"] = [self.candidate.labels[index] for index in next(iter(outputs.values())).argmax(-1)]
        return outputs


def _sendable(name: str, array: Any) -> Any:
    if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise AnswerError(f"output {name!r} holds NaN or infinity, which JSON cannot carry")
    return array


def _wanted(named: list[dict[str, Any]], asked: Any) -> list[dict[str, Any]]:
    """The outputs that the request asks for, all of them when it names none."""
    if asked is None or asked == []:
        return named
    if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
        raise RequestError("'outputs' must be a list of {\"name\": …}: leave it out for all outputs")
    known = {item["name"]: item for item in named}
    for item in asked:
        if item.get("name") not in [*known]:  # a list, since what came may not be hashable
            raise RequestError(f"there is no output {item.get('name')!r}: this model gives {', '.join(known)}")
    return [known[item["name"]] for item in asked]
