"""One loaded candidate that answers requests; for one thread at a time."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from paddleship.errors import PaddleshipError, RequestError
from paddleship.shipped.computing import preprocess, runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Arrays, TensorSpec
from paddleship.shipped.serving import limits, protocol, texts
from paddleship.shipped.serving.sample import RequestSample

log = logging.getLogger("paddleship.shipped.serving")

_WARM_BATCHES = (1, 2, 8)


class AnswerError(PaddleshipError):
    """The answer of the model cannot be sent as JSON."""


class RefusedByModel(RequestError):
    """The runtime raised an error for an input that keeps all declared rules, and still answers a known batch as before."""


class ServedModel:
    """A candidate with its preprocessing and runtime. Loading checks every file's hash.

    A request may have as many rows as the proof covered, or `max_batch` if that is less. `limits` are the limits of a body.
    `answers` is False after a failure that the input does not explain, until the model answers a known batch again. `sample` is
    the file in which features of answered rows are counted, if they are to be.
    """

    def __init__(self, folder: Path, *, max_batch: int | None = None, memory_bytes: int | None = None, sample: Path | None = None) -> None:
        self.candidate = Candidate.load(folder)
        self._sample = RequestSample.start(sample, self.candidate) if sample else None
        self.version = self.candidate.digest[:12]
        self.answers = True
        self._preprocess = preprocess.build(self.candidate.preprocess, self.candidate.inputs, self.candidate.dimensions)
        self.limits = limits.of_bodies(
            self._preprocess.requests,
            max_batch=min(max_batch or self.candidate.max_batch, self.candidate.max_batch),
            longest_text=self._preprocess.longest_text,
            dimensions=self.candidate.dimensions,
            memory_bytes=memory_bytes or limits.available_memory(),
        )
        self._runtime = runtimes.load(folder)
        self._known: tuple[Batch, Arrays] | None = None

    def warm_up(self) -> None:
        """Run batches with shapes from the data, because the first call with a shape is slow."""
        inputs = self.candidate.inputs
        sizes = [size for size in _WARM_BATCHES if size <= self.limits.max_batch]
        for size, shapes in itertools.product(sizes, self.candidate.warm_shapes):
            known = {str(name): number for spec in inputs for name, number in zip(spec.shape, shapes[spec.name], strict=True)}
            batch = {spec.name: np.full((size, *shapes[spec.name][1:]), spec.limits(known)[0] or 0, spec.numpy_dtype) for spec in inputs}
            try:
                answer = dict(self._runtime.run(batch))
            except Exception as failure:
                log.warning("warm-up with the shapes %s failed (%s): the first requests will be slow", shapes, explain(failure))
                return
            self._known = self._known or (batch, answer)

    def close(self) -> None:
        """Write what was counted of the requests and not written yet."""
        if self._sample is not None:
            self._sample.close()

    def metadata(self) -> dict[str, Any]:
        """The model metadata of the protocol; the version is the beginning of the candidate's digest."""
        outputs = [protocol.describe(spec) for spec in self.candidate.outputs]
        if self.candidate.labels:
            outputs.append(protocol.describe(TensorSpec("label", "str", ("batch",))))
        return {
            "name": self.candidate.model,
            "versions": [self.version],
            "platform": self.candidate.runtime,
            "inputs": [protocol.describe(spec) for spec in self._preprocess.requests],
            "outputs": outputs,
            "parameters": {
                "candidate_digest": self.candidate.digest,
                "max_batch": self.limits.max_batch,
                "max_bytes": self.limits.max_bytes,
            },
        }

    def answer(self, body: bytes | bytearray) -> bytes:
        """Answer a request, JSON to JSON. Raises RequestError for errors of the client."""
        try:
            return self._answer(orjson.loads(body))
        except orjson.JSONDecodeError as error:
            not_finite = error.doc[error.pos :].startswith(("NaN", "Infinity"))
            reason = "JSON has no NaN or Infinity" if not_finite else str(error)
            raise RequestError(f"the request is not JSON ({reason}): send an Open Inference Protocol request") from None
        except RecursionError:
            raise RequestError("the request is nested too deeply to be read: send flat data") from None

    def _answer(self, request: Any) -> bytes:
        columns = protocol.decode_request(request, self._preprocess.requests, max_batch=self.limits.max_batch)
        texts.check(columns)
        if not isinstance(request.get("id", ""), str):
            raise RequestError(f"'id' must be text (got {type(request['id']).__name__}): send a string, or leave it out")
        outputs = self.predict(columns)
        answer: dict[str, Any] = {"model_name": self.candidate.model, "model_version": self.version}
        if "id" in request:
            answer["id"] = request["id"]
        if cut := self._preprocess.cuts(columns):
            answer["parameters"] = {"truncated": cut}
        named = [protocol.encode_tensor(name, _sendable(name, values)) for name, values in outputs.items()]
        return orjson.dumps({**answer, "outputs": _wanted(named, request.get("outputs"))}, option=orjson.OPT_SERIALIZE_NUMPY)

    def predict(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Map columns to outputs by name; with class names, `label` has the name of each row's decision. Raises RequestError."""
        examples = self._preprocess.encode(columns)
        outputs: dict[str, Any] = self._run(self._preprocess.collate(examples))
        if self._sample is not None:
            self._sample.offer(examples)
        if self.candidate.labels:
            outputs["label"] = self.candidate.label_rows(next(iter(outputs.values())), lambda: self._preprocess.positions(columns))
        return outputs

    def _run(self, batch: Batch) -> Arrays:
        """The runtime's answer. Raises RefusedByModel if it rejects this batch and still answers a known batch as before."""
        try:
            outputs = dict(self._runtime.run(batch))
        except PaddleshipError:
            raise
        except Exception as failure:
            if self._known is None:
                raise
            self.probe()
            if not self.answers:
                raise
            reason = explain(failure)
            log.info("refused by the model: %s", reason)
            raise RefusedByModel(f"the model does not take this input ({reason}): send other values or sizes") from None
        self.answers, self._known = True, self._known or (batch, outputs)
        return outputs

    def probe(self) -> None:
        """Set `answers`: whether a known batch gets the same answer as before."""
        if self._known is None:
            return
        batch, before = self._known
        try:
            now = self._runtime.run(batch)
        except Exception:
            self.answers = False
            return
        self.answers = all(name in now and _close(now[name], array) for name, array in before.items())


def _close(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.shape == other.shape and np.allclose(one, other, equal_nan=True)


def _sendable(name: str, array: Any) -> Any:
    if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise AnswerError(f"output {name!r} holds NaN or infinity, which JSON cannot represent: send other values")
    return array


def _wanted(named: list[dict[str, Any]], asked: Any) -> list[dict[str, Any]]:
    """The outputs that the request names; all if it names none."""
    if asked is None or asked == []:
        return named
    if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
        raise RequestError("'outputs' must be a list of {\"name\": …}: leave it out for all outputs")
    known = {item["name"]: item for item in named}
    for item in asked:
        if item.get("name") not in [*known]:  # a list, because the client's value may not be hashable
            raise RequestError(f"there is no output {item.get('name')!r}: this model gives {', '.join(known)}")
    return [known[item["name"]] for item in asked]
