"""One loaded candidate that answers columns of rows; for one thread at a time."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing import answers, preprocess, runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Arrays, TensorSpec
from paddleship.shipped.serving import columns
from paddleship.shipped.serving.columns import Columns, Tensor
from paddleship.shipped.serving.errors import RefusedByModel
from paddleship.shipped.serving.limits import Limits, available_memory
from paddleship.shipped.serving.sample import RequestSample

log = logging.getLogger("paddleship.shipped.serving")

_WARM_BATCHES = (1, 2, 8)


class ServedModel:
    """A candidate with its preprocessing and runtime. Loading checks every file's hash.

    A request may have as many rows as the proof covered, or `max_batch` if that is less. `requests` describes its tensors, `outputs` those
    of the answer. `longest_text` is the number of characters that are read of the texts of a row, `largest_bytes` what its columns of
    bytes may have; None without such columns. `answers` is False after a failure that the input does not explain, until the model answers
    a known batch again. `sample` is the file in which features of answered rows are counted, if they are to be.
    """

    def __init__(self, folder: Path, *, max_batch: int | None = None, memory_bytes: int | None = None, sample: Path | None = None) -> None:
        self.candidate = Candidate.load(folder)
        self._sample = RequestSample.start(sample, self.candidate) if sample else None
        self.version = self.candidate.digest[:12]
        self.answers = True
        self._preprocess = preprocess.build(self.candidate.preprocess, self.candidate.inputs, self.candidate.dimensions)
        self.requests = self._preprocess.requests
        self.longest_text, self.largest_bytes = self._preprocess.longest_text, self._preprocess.largest_bytes
        self._answering = answers.load(folder, self.candidate)
        added = [*(["label"] if self.candidate.labels else []), *([answers.NAME] if self._answering else [])]
        self.outputs = (*self.candidate.outputs, *(TensorSpec(name, "str", ("batch",)) for name in added))
        self.limits = Limits(
            max_batch=min(max_batch or self.candidate.max_batch, self.candidate.max_batch),
            memory_bytes=memory_bytes or available_memory(),
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

    def check(self, tensors: Iterable[Tensor]) -> Columns:
        """The columns of a request, by input name, from the tensors that a transport decoded. Raises RequestError."""
        return columns.check(tensors, self.requests, max_batch=self.limits.max_batch)

    def cuts(self, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The texts of which only the beginning is read: input, row, length, and the characters that are kept."""
        return self._preprocess.cuts(columns)

    def predict(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Map columns to outputs by name. Raises RequestError.

        With class names, `label` has the name of each row's decision; with params.answer, `answer` has the JSON of each row's answer.
        """
        examples = self._preprocess.encode(columns)
        outputs = self._run(self._preprocess.collate(examples))
        if self._sample is not None:
            self._sample.offer(examples, columns)
        return outputs | self._added(outputs, columns)

    def _added(self, outputs: Arrays, columns: Mapping[str, Any]) -> dict[str, list[str]]:
        """The label and the answer of each row; no answer where an output is not finite, which no transport sends."""
        first, added = next(iter(outputs.values())), dict[str, list[str]]()
        if self.candidate.labels:
            decided = self._answering.decided(first) if self._answering else first
            added["label"] = self.candidate.label_rows(decided, lambda: self._preprocess.positions(columns))
        if self._answering and all(np.isfinite(array).all() for array in outputs.values()):
            added[answers.NAME] = self._answering.texts(outputs)
        return added

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
