"""Inference runtimes, one file each with its registration; its library is imported only when a candidate is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import processor, registry
from paddleship.shipped.computing.spec import Arrays


class Runtime(Protocol):
    """A loaded model. Not thread-safe: use a runtime from one thread at a time."""

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        """Answer one batch: arrays by input name in, arrays by output name out."""


def load(folder: Path, *, options: Mapping[str, Any] | None = None, thread_count: int | None = None) -> Runtime:
    """Check the candidate in `folder` and load it into its runtime; `options` override the candidate's."""
    candidate = Candidate.load(folder)
    if thread_count:
        candidate = replace(candidate, threads=thread_count)
    if options:
        candidate = replace(candidate, options={**candidate.options, **options})
    door = registry.get(candidate.runtime).registration
    processor.require(door.processor_flags, door.name)
    if candidate.programs:
        from paddleship.shipped.computing.runtimes.bucketed import Bucketed

        return Bucketed(candidate, [(program.sizes, door.load(folder / program.folder, candidate)) for program in candidate.programs])
    loaded: Runtime = door.load(folder, candidate)
    if candidate.options.get("bucket", 1) > 1:
        from paddleship.shipped.computing.runtimes.bucketed import Rounded

        return Rounded(candidate, loaded, candidate.options["bucket"])
    return loaded


def inference_thread() -> ThreadPoolExecutor:
    """One thread for callers of many threads to share a runtime by: the server answers on it, and verify proves answers from it.

    A runtime shared by two threads may mix up their answers without an error, as a Paddle predictor does.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="inference")


def named_outputs(candidate: Candidate, arrays: list[np.ndarray[Any, Any]], inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
    """Name the outputs of an exported program as eager does, and add repeated outputs and inputs that are passed through."""
    expected = sum(isinstance(source, int) for source in set(candidate.sources.values()))
    if len(arrays) != expected:
        raise CandidateError(f"candidate {candidate.name!r} returned {len(arrays)} outputs, the exported program has {expected}")
    named = {}
    for spec in candidate.outputs:
        source = candidate.sources[spec.name]
        array = np.ascontiguousarray(inputs[source] if isinstance(source, str) else arrays[source])
        named[spec.name] = array.reshape(()) if spec.shape == () and array.size == 1 else array  # predictors answer 0-d as (1,)
    return named
