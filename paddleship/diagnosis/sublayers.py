"""Export one sublayer as a candidate of its own, whole or cut off after a line of its forward."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.conversion import to_onnx
from paddleship.conversion.exporting import convert_layer
from paddleship.diagnosis.recording import Call, inputs_of, insert_tensors
from paddleship.errors import CandidateError, RegistrationError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.references import explain, is_users, resolve
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import TensorSpec

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in')
_CONSTANTS = frozenset({"pd_op.full", "pd_op.full_int_array"})
_LAYER_CALL = "/paddle/nn/layer/layers.py"


class ExportWorker:
    """The object in the child process: a new instance, never called in eager mode, whose sublayers are exported one by one.

    `work` holds the recording, and gets a folder `<number>` for each sublayer.
    """

    def __init__(self, source_model: SourceModel, work: Path) -> None:
        layer = source_model.build()
        building.restore(layer, source_model.checkpoint)
        layer.eval()
        self._layers = dict(layer.named_sublayers(include_self=True))
        self._work = work
        self._traced: tuple[int, Any, list[tuple[str, Any]]] | None = None

    def export(self, call: Call, candidate: Candidate) -> None:
        """Write the sublayer as a candidate with the settings of the given one, and inputs named x0, x1 …"""
        arrays = self._recorded(call)
        specs = _specs(call, arrays)
        folder = self._folder(str(call.number))
        try:
            sources, _ = convert_layer(_standalone(self._layers[call.path], call), folder, [specs])
        except Exception as failure:
            raise CandidateError(explain(failure)) from None
        outputs = tuple(TensorSpec(name, str(arrays[f"out/{name}"].dtype), arrays[f"out/{name}"].shape) for name in call.outputs)
        _save(replace(candidate, inputs=tuple(specs), outputs=outputs, sources=sources), folder)

    def lines(self, call: Call) -> list[str]:
        """The lines of the sublayer's forward in the order in which the program computes them."""
        return [where for where, _ in self._trace(call)[1]]

    def needed(self, call: Call, index: int) -> list[int]:
        """The indices in `lines` of the values that the line at `index` is computed from, in program order."""
        stops = self._trace(call)[1]
        return _sources(stops[index][1], [value for _, value in stops[:index]])

    def become(self, folder: str, candidate: Candidate) -> None:
        """Convert the exported sublayer as the candidate was converted. A converter may abort; the parent then starts a new child."""
        path = self._work / folder
        if registry.get(candidate.runtime).registration.source == "onnx":
            to_onnx.convert(path, path)
        if maker := registry.kind_of(candidate).maker:
            resolve(maker, key="a registration's maker", error=RegistrationError)(path, path, ())

    def cut(self, call: Call, index: int, candidate: Candidate) -> None:
        """Write the program up to one of `lines` into the folder `<number>-<index>`."""
        import paddle

        static, stops = self._trace(call)
        folder = self._folder(f"{call.number}-{index}")
        program, value = static.forward.concrete_program, stops[index][1]
        inputs, program.inputs, program.outputs = program.inputs, _used(program, value), [value]
        try:
            paddle.jit.save(static, str(folder / "model"))
        except Exception as failure:
            raise CandidateError(explain(failure)) from None
        finally:
            program.inputs = inputs
        specs = tuple(_specs(call, self._recorded(call)))
        outputs = (TensorSpec("output", "float32", ("batch",)),)
        _save(replace(candidate, inputs=specs, outputs=outputs, sources={"output": 0}), folder)

    def _trace(self, call: Call) -> tuple[Any, list[tuple[str, Any]]]:
        if self._traced is None or self._traced[0] != call.number:
            layer = self._layers[call.path]
            static = building.to_static(_standalone(layer, call), [_specs(call, self._recorded(call))])
            self._traced = (call.number, static, _stops(static.forward.concrete_program.main_program, layer))
        return self._traced[1:]

    def _recorded(self, call: Call) -> dict[str, Any]:
        with np.load(self._work / f"{call.number}.npz", allow_pickle=False) as stored:
            return dict(stored)

    def _folder(self, name: str) -> Path:
        folder = self._work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _save(candidate: Candidate, folder: Path) -> None:
    replace(candidate, nesting=None, warm_shapes=(), files={}).save(folder)


def _specs(call: Call, arrays: dict[str, Any]) -> list[TensorSpec]:
    return [
        TensorSpec(
            f"x{index}",
            str(array.dtype),
            tuple(f"axis{axis}" if axis in call.dynamic[index] else size for axis, size in enumerate(array.shape)),
        )
        for index, array in enumerate(inputs_of(arrays))
    ]


def _standalone(layer: Any, call: Call) -> Any:
    """A layer that takes a list of tensors and calls the sublayer with them and its other arguments."""
    import paddle

    class Standalone(paddle.nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, tensors: Any) -> Any:
            arguments = arrange(tensors)
            return self.layer(*arguments[0], **arguments[1])

    @paddle.jit.not_to_static  # type: ignore[untyped-decorator]
    def arrange(tensors: Any) -> Any:
        return insert_tensors(call.arguments, tensors)

    alone = Standalone()
    alone.eval()
    return alone


def _stops(program: Any, layer: Any) -> list[tuple[str, Any]]:
    """The results of each line of forward, or of a function that it calls, that other lines use, with the line, in program order."""
    code = inspect.unwrap(type(layer).forward).__code__
    source, start = inspect.getsourcelines(code)
    runs: list[tuple[str, list[Any]]] = []
    for operator in program.global_block().ops:
        frames = [(file, int(line)) for file, line in _FRAME.findall("\n".join(operator.callstack))]
        index = next((i for i, (file, line) in enumerate(frames) if file == code.co_filename and 0 <= line - start < len(source)), None)
        if index is None or not any(value.is_dense_tensor_type() for value in operator.results()):
            continue
        where = _innermost(frames[index:])
        if not runs or runs[-1][0] != where:
            runs.append((where, []))
        runs[-1][1].append(operator)
    return [(where, value) for where, operators in runs for value in _results(operators)]


def _results(operators: Sequence[Any]) -> list[Any]:
    """The values that these operators of one line compute for others; a constant only if there is nothing else."""
    own = {operator.id() for operator in operators}
    results: list[tuple[str, Any]] = []
    for operator in operators:
        dense = [value for value in operator.results() if value.is_dense_tensor_type()]
        unused = all(value.use_empty() for value in dense)
        results += [
            (operator.name(), value)
            for number, value in enumerate(dense)
            if (unused and number == 0) or any(user.id() not in own for user in value.all_used_ops())
        ]
    return [value for name, value in results if name not in _CONSTANTS] or [value for _, value in results[-1:]]


def _used(program: Any, value: Any) -> list[Any]:
    """The inputs that a value of a program depends on: Paddle saves no unused input."""
    from paddle.autograd.backward_utils import ValueSet, get_real_op_inputs, get_real_op_outputs, some_in_set
    from paddle.utils import flatten

    wanted = ValueSet([value])
    for operator in reversed(program.main_program.global_block().ops):
        if some_in_set(get_real_op_outputs(operator), wanted):
            for needed in get_real_op_inputs(operator):
                wanted.add(needed)
    return [variable for variable in flatten(program.inputs) if hasattr(variable, "get_defining_op") and variable in wanted]


def _sources(value: Any, earlier: Sequence[Any]) -> list[int]:
    """The indices of those earlier values that this one is computed from without another of them in between."""
    from paddle.autograd.backward_utils import get_real_op_inputs

    sources: set[int] = set()
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        origin = waiting.pop().get_defining_op()
        if origin is None or origin.id() in seen:
            continue
        seen.add(origin.id())
        for needed in get_real_op_inputs(origin):
            index = next((index for index, other in enumerate(earlier) if other.is_same(needed)), None)
            if index is None:
                waiting.append(needed)
            else:
                sources.add(index)
    return sorted(sources)


def _innermost(frames: Sequence[tuple[str, int]]) -> str:
    """The deepest line of the user's code below a forward, without entering another layer."""
    innermost = frames[0]
    for file, line in frames:
        if file.endswith(_LAYER_CALL):
            break
        if is_users(file, libraries=True):
            innermost = (file, line)
    return f"{innermost[0]}:{innermost[1]}"
