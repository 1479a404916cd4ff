"""Record the inputs and outputs of every sublayer of the eager model, so that each sublayer can run alone.

For a child process, because hooks and the default dtype stay. There is one .npz file per sublayer: `in/0 …` are the inputs of its first
call, `out/<name>` its answers in float32, `true/<name>` the answers of the same sublayer in float64 to the same inputs.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import BadInput
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.numerics import differences
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import is_users
from paddleship.shipped.computing.spec import Arrays

Shape = tuple[int, ...]
_STATEFUL = 1e-3  # of the scale: more than rounding, so the answer depends on more than the inputs


@dataclass(frozen=True)
class TensorRef:
    """The position of a tensor in the arguments of a call."""

    index: int


@dataclass(frozen=True)
class Call:
    """The first call of a sublayer.

    `path` is its name in the model, "" for the model itself; `parent` is the sublayer that called it. `where` is the line of its forward,
    or the line that called it if the class is Paddle's. `arguments` are args and kwargs with a TensorRef for each tensor. `dynamic` has,
    per tensor, the axes whose size follows the batch. `reason` says why it cannot run alone.
    """

    number: int
    path: str
    kind: str
    own: bool
    where: str | None
    parent: int | None
    times: int = 1
    arguments: Any = None
    dynamic: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[str, ...] = ()
    reason: str = ""

    @property
    def label(self) -> str:
        return f"{self.path} ({self.kind})" if self.path else self.kind


class Recorder:
    """The eager model with a hook on every sublayer."""

    def __init__(self, source_model: SourceModel, folder: Path) -> None:
        self._source_model = source_model
        self._folder = folder

    def record(self, batch: Batch, other: Batch | None) -> list[Call]:
        """Record all calls for one batch; a second batch of other sizes shows which axes are dynamic."""
        eager = Eager(self._source_model)
        notes = _listen(eager, batch)
        shapes = {note.path: note.shapes for note in _listen(Eager(self._source_model), other)} if other else {}
        calls = []
        for note in notes:
            dynamic = _dynamic(note.shapes, shapes.get(note.path))
            calls.append(replace(note.call, dynamic=dynamic, times=note.times))
            arrays: dict[str, Any] = dict(note.answered)
            arrays |= {f"in/{index}": array for index, array in enumerate(note.inputs)}
            np.savez(self._folder / f"{note.call.number}.npz", **arrays)  # type: ignore[arg-type, unused-ignore]
        return calls

    def truth(self, calls: Sequence[Call]) -> list[Call]:
        """Run every sublayer again in float64. Returns the calls, with a reason if an answer depends on more than the inputs."""
        layers: dict[str, Any] | None
        try:
            eager = Eager(self._source_model, dtype="float64")
            layers = dict(eager.layer.named_sublayers(include_self=True))
        except BadInput:
            layers = None
        return [call if call.reason else self._ask(call, layers) for call in calls]

    def _ask(self, call: Call, layers: Mapping[str, Any] | None) -> Call:
        path = self._folder / f"{call.number}.npz"
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, Any] = dict(stored)
        answered = {key: array for key, array in arrays.items() if key.startswith("out/")}
        true = _answer(layers[call.path], call, inputs_of(arrays)) if layers is not None and call.path in layers else None
        if true is None or [f"true/{name}" for name in call.outputs] != list(true):
            true = {f"true/{name}": answered[f"out/{name}"] for name in call.outputs}  # eager float32 replaces the truth
        for name in call.outputs:
            answer, truth = answered[f"out/{name}"], true[f"true/{name}"]
            if answer.shape != truth.shape or differences.relative(answer, differences.expected(truth, answer)) > _STATEFUL:
                return replace(call, reason="when run alone it gives another answer, so it depends on more than its inputs")
        arrays |= true
        np.savez(path, **arrays)
        return call


def inputs_of(arrays: Mapping[str, Any]) -> list[Any]:
    """The inputs of a call, from the arrays of its file."""
    return [arrays[f"in/{index}"] for index in range(sum(key.startswith("in/") for key in arrays))]


def insert_tensors(tree: Any, tensors: Sequence[Any]) -> Any:
    """Arguments with tensors in their slots."""
    if isinstance(tree, TensorRef):
        return tensors[tree.index]
    if isinstance(tree, dict):
        return {key: insert_tensors(part, tensors) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(insert_tensors(part, tensors) for part in tree) if type(tree) in (list, tuple) else tree
    return tree


@dataclass
class _Note:
    """The record of one run of the model."""

    call: Call
    inputs: list[Any]
    answered: dict[str, Any]
    times: int = 1

    @property
    def path(self) -> str:
        return self.call.path

    @property
    def shapes(self) -> list[Shape]:
        return [array.shape for array in self.inputs]


def _listen(eager: Eager, batch: Batch) -> list[_Note]:
    """Run one batch and record the first call of every sublayer, in the order in which the calls began."""
    notes: dict[str, _Note] = {}
    stack: list[tuple[str, bool]] = []

    def before(path: str, layer: Any, args: Any, kwargs: Any) -> None:
        first = path not in notes
        parent = notes[stack[-1][0]].call.number if stack else None
        stack.append((path, first))
        if not first:
            notes[path].times += 1
            return
        tensors: list[Any] = []
        reason = ""
        try:
            arguments = (_extract_tensors(tuple(args), tensors), _extract_tensors(dict(kwargs), tensors))
            reason = "" if tensors else "it takes no tensor"
        except TypeError as odd:
            arguments, reason = ((), {}), f"it is given a {odd}"
        own, where = _owner_and_line(layer)
        call = Call(len(notes), path, type(layer).__name__, own, where, parent, 1, arguments, reason=reason)
        notes[path] = _Note(call, [np.array(tensor.numpy()) for tensor in tensors], {})

    def after(_layer: Any, _args: Any, result: Any) -> None:
        path, first = stack.pop()
        note = notes[path]
        if not first or note.call.reason:
            return
        try:
            named = building.name_outputs(result)
            note.answered = {f"out/{name}": np.array(tensor.numpy()) for name, tensor in named.items()}
            note.call = replace(note.call, outputs=tuple(named))
        except BadInput as odd:
            note.call = replace(note.call, reason=str(odd).partition(":")[0])

    for path, layer in eager.layer.named_sublayers(include_self=True):
        layer.register_forward_pre_hook(lambda layer, args, kwargs, path=path: before(path, layer, args, kwargs), with_kwargs=True)
        layer.register_forward_post_hook(after)
    eager.run(batch)
    return list(notes.values())


def _extract_tensors(value: Any, tensors: list[Any]) -> Any:
    """Replace each tensor in the arguments by a TensorRef, and add it to `tensors`. Raises TypeError for values that cannot be saved."""
    import paddle

    if isinstance(value, paddle.Tensor):
        tensors.append(value)
        return TensorRef(len(tensors) - 1)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in (list, tuple):
        return type(value)(_extract_tensors(part, tensors) for part in value)
    if type(value) is dict:
        return {key: _extract_tensors(part, tensors) for key, part in value.items()}
    raise TypeError(type(value).__name__)


def _owner_and_line(layer: Any) -> tuple[bool, str | None]:
    """Whether the class belongs to the user, and its line: that of its forward, or the user's line that calls it."""
    code = getattr(inspect.unwrap(type(layer).forward), "__code__", None)
    if code is not None and is_users(code.co_filename, libraries=True):
        return True, f"{code.co_filename}:{code.co_firstlineno}"
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename, libraries=True):
        frame = frame.f_back  # type: ignore[assignment]
    return False, f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def _dynamic(shapes: Sequence[Shape], others: Sequence[Shape] | None) -> tuple[tuple[int, ...], ...]:
    """For each tensor, the axes whose size changed with the batch."""
    if others is None or [len(shape) for shape in shapes] != [len(shape) for shape in others]:
        return tuple(() for _ in shapes)
    return tuple(tuple(axis for axis, size in enumerate(shape) if size != other[axis]) for shape, other in zip(shapes, others, strict=True))


def _answer(layer: Any, call: Call, arrays: Sequence[Any]) -> Arrays | None:
    """The answer of the sublayer in float64; None if it fails."""
    import paddle

    try:
        with paddle.no_grad():
            tensors = [paddle.to_tensor(array.astype("float64") if array.dtype == np.float32 else array) for array in arrays]
            args, kwargs = insert_tensors(call.arguments, tensors)
            return {f"true/{name}": tensor.numpy() for name, tensor in building.name_outputs(layer(*args, **kwargs)).items()}
    except Exception:
        return None
