"""Pad inputs to the fixed sizes of a program, or to shape buckets that are faster to compute.

Inputs are padded with `pad` of their spec, the batch with its last row; outputs are cut back along the padded dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Arrays, TensorSpec, sizes_of


class Bucketed:
    """Several programs for fixed sizes: the smallest program that fits answers; a larger batch is split.

    `programs` are pairs of fixed sizes by dimension and the runtime for them.
    """

    def __init__(self, candidate: Candidate, programs: Sequence[tuple[Mapping[str, int], Any]]) -> None:
        self._inputs, self._outputs = candidate.inputs, candidate.outputs
        self._programs = sorted(programs, key=lambda program: int(np.prod(list(program[0].values()))))
        self._batch = candidate.inputs[0].shape[0]

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        """Answer one batch. Raises RequestError for a row that is larger than every program."""
        sizes = sizes_of(self._inputs, inputs)
        largest = max((fixed.get(str(self._batch), 0) for fixed, _ in self._programs), default=0)
        if largest and sizes[str(self._batch)] > largest:
            parts = [
                self.run({name: array[start : start + largest] for name, array in inputs.items()})
                for start in range(0, sizes[str(self._batch)], largest)
            ]
            return {spec.name: _join([part[spec.name] for part in parts], spec, self._batch) for spec in self._outputs}
        fixed, program = self._fitting(sizes)
        answer = program.run({spec.name: pad(inputs[spec.name], spec, fixed) for spec in self._inputs})
        return {spec.name: _cut(answer[spec.name], spec, fixed, sizes) for spec in self._outputs}

    def _fitting(self, sizes: Mapping[str, int]) -> tuple[Mapping[str, int], Any]:
        for fixed, program in self._programs:
            if all(sizes[name] <= size for name, size in fixed.items()):
                return fixed, program
        allowed = {name: max(fixed[name] for fixed, _ in self._programs) for name in self._programs[-1][0]}
        name = next(name for name, size in allowed.items() if sizes[name] > size)
        raise RequestError(
            f"{name} is {sizes[name]}, this model was exported for at most {allowed[name]}: send smaller inputs, or raise export.buckets"
        )


class Rounded:
    """A dynamic program whose dynamic dimensions, except the batch, are padded to multiples of `bucket`.

    Nothing is padded beyond the largest size that export has seen, because the model may have no positions beyond it.
    """

    def __init__(self, candidate: Candidate, program: Any, bucket: int) -> None:
        self._inputs, self._outputs = candidate.inputs, candidate.outputs
        self._program, self._bucket = program, bucket
        self._batch = candidate.inputs[0].shape[0]
        self._largest = {
            str(name): max((shapes[spec.name][axis] for shapes in candidate.warm_shapes), default=0)
            for spec in candidate.inputs
            for axis, name in enumerate(spec.shape)
        }

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        sizes = sizes_of(self._inputs, inputs)
        rounded = {name: -(-size // self._bucket) * self._bucket for name, size in sizes.items() if name != self._batch}
        fixed = {name: size for name, size in rounded.items() if size <= self._largest[name]}
        answer = self._program.run({spec.name: pad(inputs[spec.name], spec, fixed) for spec in self._inputs})
        return {spec.name: _cut(answer[spec.name], spec, fixed, sizes) for spec in self._outputs}


def pad(array: np.ndarray[Any, Any], spec: TensorSpec, fixed: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """Pad an array to fixed sizes: the batch with its last row, other dimensions with `pad` of the spec."""
    for axis, name in enumerate(spec.shape):
        short = fixed.get(str(name), array.shape[axis]) - array.shape[axis] if isinstance(name, str) else 0
        if short > 0 and axis == 0:
            array = np.concatenate([array, array[-1:].repeat(short, axis=0)])
        elif short > 0:
            array = np.pad(array, [(0, short if axis == other else 0) for other in range(array.ndim)], constant_values=spec.pad)
    return array


def _cut(array: np.ndarray[Any, Any], spec: TensorSpec, fixed: Mapping[str, int], sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    place = tuple(slice(sizes[name]) if isinstance(name, str) and name in fixed else slice(None) for name in spec.shape)
    return np.ascontiguousarray(array[place]) if place else array


def _join(parts: Sequence[np.ndarray[Any, Any]], spec: TensorSpec, batch: int | str) -> np.ndarray[Any, Any]:
    if not spec.shape or spec.shape[0] != batch:
        raise RequestError(
            f"output {spec.name!r} has no row for each row sent, so a large batch cannot be answered in parts: send fewer rows"
        )
    return np.concatenate(parts)
