"""One loaded candidate that answers columns of rows; for one thread at a time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import PaddleshipError, RequestError
from paddleship.shipped.computing import preprocess, runtimes
from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.computing.candidate import CODE, Candidate
from paddleship.shipped.computing.preprocess import Batch, Example, Preprocess
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import Arrays, TensorSpec
from paddleship.shipped.serving import columns
from paddleship.shipped.serving.columns import Columns, ModelInputs, Tensor
from paddleship.shipped.serving.errors import RefusedByModel
from paddleship.shipped.serving.limits import Limits, available_memory
from paddleship.shipped.serving.sample import RequestSample

log = logging.getLogger("paddleship.shipped.serving")

_WARM_BATCHES = (1, 2, 8)
_TIMED = 3  # runs of each
_QUICK_S = 0.0005  # for every batch of the warm-up


class ServedModel:
    """A candidate with its preprocessing and runtime. Loading checks every file's hash.

    A request may have as many rows as the proof covered, or `max_batch` if that is less. `requests` describes its tensors, `outputs` those
    of the answer. `longest_text` is the number of characters that are read of the texts of a row, `largest_bytes` what its columns of
    bytes may have; None without such columns. `missing` names the columns in which numbers may be missing. `answers` is False after a
    failure that the input does not explain, until the model answers a known batch again. After the warm-up, `is_quick` says that a call
    takes so little that no thread of its own is worth it, and `call_values` is the number of input values whose computation takes as long
    as what every call costs. `sample` is the file in which features of answered rows are counted, if they are to be. `share`: so many
    processes share the threads that the candidate has.
    """

    def __init__(
        self, folder: Path, *, max_batch: int | None = None, memory_bytes: int | None = None, sample: Path | None = None, share: int = 1
    ) -> None:
        self.candidate = Candidate.load(folder)
        self._sample = RequestSample.start(sample, self.candidate) if sample else None
        self.version = self.candidate.digest[:12]
        self.answers, self.is_quick = True, False
        self.call_values, self._slowest_s = 0.0, 0.0
        self._preprocess = preprocess.build(self.candidate.preprocess, self.candidate.inputs, self.candidate.dimensions)
        self._tensors = preprocess.build({}, self.candidate.inputs, self.candidate.dimensions)
        self._unlimited = _unlimited(self.candidate)
        self.requests = self._preprocess.requests
        self.missing = self._preprocess.missing
        self.longest_text, self.largest_bytes = self._preprocess.longest_text, self._preprocess.largest_bytes
        self._answering, self._has_labels = answers.load(folder, self.candidate), bool(self.candidate.labels)
        added = [*(["label"] if self._has_labels else []), *([answers.NAME] if self._answering else [])]
        self.outputs = (*self.candidate.outputs, *(TensorSpec(name, "str", ("batch",)) for name in added))
        self.limits = Limits(
            max_batch=min(max_batch or self.candidate.max_batch, self.candidate.max_batch),
            memory_bytes=memory_bytes or available_memory(),
        )
        self._runtime = runtimes.load(folder, thread_count=max(1, self.candidate.threads // share) if share > 1 else None)
        self._known: tuple[Batch, Arrays] | None = None

    def warm_up(self) -> None:
        """Run batches with shapes from the data, because the first call with a shape is slow, and measure how quick later calls are."""
        sizes = [size for size in _WARM_BATCHES if size <= self.limits.max_batch]
        for shapes in self.candidate.warm_shapes:
            try:
                seconds = [self._warm(self._filled(size, shapes)) for size in sizes]
            except Exception as failure:
                log.warning("warm-up with the shapes %s failed (%s): the first requests will be slow", shapes, explain(failure))
                return
            self._learn(sizes, seconds, sum(math.prod(shape[1:]) for shape in shapes.values()))
        migrates = registry.get(self.candidate.runtime).registration.any_thread
        theirs = any(name.startswith(f"{CODE}/") for name in self.candidate.files)  # what their code takes is not known
        quick = migrates and not theirs and all(one.quick for one in self._preprocess.encoders)
        self.is_quick = quick and 0 < self._slowest_s < _QUICK_S

    def _filled(self, size: int, shapes: Mapping[str, Sequence[int]]) -> Batch:
        """A batch of the lowest valid values."""
        inputs = self.candidate.inputs
        known = {str(name): number for spec in inputs for name, number in zip(spec.shape, shapes[spec.name], strict=True)}
        return {spec.name: np.full((size, *shapes[spec.name][1:]), spec.limits(known)[0] or 0, spec.numpy_dtype) for spec in inputs}

    def _warm(self, batch: Batch) -> float:
        """The seconds that the runtime takes for a batch once it knows its shape."""
        answer, seconds = dict(self._runtime.run(batch)), []
        self._known = self._known or (batch, answer)
        for _ in range(_TIMED):
            start = time.perf_counter()
            self._runtime.run(batch)
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    def _learn(self, sizes: Sequence[int], seconds: Sequence[float], row_values: int) -> None:
        """Take over how long batches of some sizes took, whose rows have so many values."""
        self._slowest_s = max(self._slowest_s, *seconds)
        if len(sizes) > 1:
            row_s = max((seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0]), 1e-9)
            self.call_values = max(0.0, (seconds[0] / row_s - 1) * row_values)

    @property
    def raw_inputs(self) -> Sequence[TensorSpec]:
        """The inputs of the model that a request may send instead of its own; empty if both are the same, or if it may not."""
        inputs = self.candidate.inputs
        same = [(spec.name, spec.dtype, spec.shape) for spec in inputs] == [(spec.name, spec.dtype, spec.shape) for spec in self.requests]
        return () if same or self._unlimited else inputs

    def close(self) -> None:
        """Write what was counted of the requests and not written yet."""
        if self._sample is not None:
            self._sample.close()

    def check(self, tensors: Iterable[Tensor], *, raw_tensors: bool = False) -> Columns:
        """The columns of a request, by input name, from the tensors that a transport decoded. Raises RequestError.

        With `raw_tensors`, these are the inputs of the model, and the answer has its outputs alone.
        """
        if not raw_tensors:
            return columns.check(tensors, self.requests, max_batch=self.limits.max_batch)
        if self._unlimited:
            raise RequestError(
                f"the parameter {columns.RAW_TENSORS!r} is not for this model (no range of {self._unlimited!r} is known): send raw values"
            )
        return ModelInputs(columns.check(tensors, self._tensors.requests, max_batch=self.limits.max_batch))

    def cuts(self, columns: Mapping[str, Any], examples: Sequence[Example]) -> list[dict[str, Any]]:
        """The texts of which only the beginning is read: input, row, length, and the characters that are kept."""
        return self._form(columns).cuts(columns, examples)

    def encode(self, columns: Mapping[str, Any]) -> list[Example]:
        """One example for each row. Raises RequestError for a value that the model does not accept."""
        return self._form(columns).encode(columns)

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Rows as one batch, padded to the longest."""
        return self._preprocess.collate(examples)

    def run(self, batch: Batch, *, alone: bool = True) -> Arrays:
        """The runtime's answer. If the batch is of one request, raises RefusedByModel where a known batch is still answered as before."""
        try:
            outputs = dict(self._runtime.run(batch))
        except PaddleshipError:
            raise
        except Exception as failure:
            if self._known is None or not alone:
                raise
            self.probe()
            if not self.answers:
                raise
            reason = explain(failure)
            log.info("refused by the model: %s", reason)
            raise RefusedByModel(f"the model does not take this input ({reason}): send other values or sizes") from None
        self.answers, self._known = True, self._known or (batch, outputs)
        return outputs

    def finish(self, columns: Mapping[str, Any], examples: Sequence[Example], outputs: Arrays) -> dict[str, Any]:
        """The answer to the rows of one request: the outputs by name, and what is added to them.

        With class names, `label` has the name of each row's decision; with params.answer, `answer` has the JSON of each row's answer, but
        not where an output is not finite, which JSON cannot represent. Nothing is added for raw tensors, and they are not counted.
        """
        if isinstance(columns, ModelInputs):
            return dict(outputs)
        if self._sample is not None:
            self._sample.offer(examples, columns)
        first, answer = next(iter(outputs.values())), dict[str, Any](outputs)
        if self._has_labels:
            decided = self._answering.decided(first) if self._answering else first
            answer["label"] = self.candidate.label_rows(decided, lambda: self._preprocess.positions(columns))
        if self._answering and all(np.isfinite(array).all() for array in outputs.values()):
            answer[answers.NAME] = self._answering.texts(outputs)
        return answer

    def _form(self, columns: Mapping[str, Any]) -> Preprocess:
        """What encodes the columns: the preprocess of the candidate, or none beyond the checks."""
        return self._tensors if isinstance(columns, ModelInputs) else self._preprocess

    def predict(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to columns of rows. Raises RequestError."""
        examples = self.encode(columns)
        return self.finish(columns, examples, self.run(self.collate(examples)))

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


def _unlimited(candidate: Candidate) -> str:
    """The first input of whole numbers that the preprocess makes and whose range is not known, so nobody else may; empty without one."""
    made = preprocess.inputs_of(candidate.preprocess)
    numbers = [spec for spec in candidate.inputs if spec.name in made and spec.numpy_dtype.kind in "iu"]
    return next((spec.name for spec in numbers if spec.low is None or spec.high is None), "")
