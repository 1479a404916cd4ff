"""Export the checkpoint as a static program: `to_static` on a fresh instance, saved with the record of its control flow.

The exported program is also the first candidate, for Paddle Inference with default options.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paddleship.controlflow import regions, resolved_conditions
from paddleship.conversion import bundle, shape_buckets, tensor_names
from paddleship.errors import BadInput, ModelError, OutputError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.numerics import differences
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes, structure
from paddleship.shipped.computing.answers import loading as answer_kinds
from paddleship.shipped.computing.answers import registry as answer_registry
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import explain
from paddleship.shipped.computing.spec import Arrays, TensorSpec
from paddleship.shipped.computing.structure import describe
from paddleship.system import isolate


def export(
    source_model: SourceModel,
    folder: Path,
    base: Candidate,
    *,
    probes: Sequence[Batch],
    timeout_s: float,
    sizes: Callable[[], Mapping[str, Sequence[int]]] = dict,
    skip: Sequence[str] = (),
) -> tuple[Candidate, list[Finding]]:
    """Write the program and `candidate.json` into `folder`: `base` with outputs, weights and files. Returns what had to be given up, too.

    `probes` are batches of different sizes and lengths. The eager model answers them in a process of its own, so that the exported
    instance was never called. If the program does not keep every dynamic dimension, the `sizes` of shape_buckets are tried. Raises
    ModelError with the user's line if nothing converts.
    """
    with isolate.Isolated("the eager model", Eager, source_model, timeout_s=timeout_s) as eager:
        answers: list[Arrays] = [eager.call("run", probe) for probe in probes]
        nestings = [eager.call("nesting", probe) for probe in probes]
    constants = [structure.constants(nesting) for nesting in nestings]
    if odd := next((other for other in constants if other != constants[0]), None):
        raise ModelError(f"forward returns {constants[0]} beside its tensors and, for other inputs, {odd}: return it as a tensor")
    nesting = nestings[0]
    warm_shapes = tuple({name: list(array.shape) for name, array in probe.items()} for probe in probes)
    base = replace(base, outputs=describe_outputs(base.inputs, probes, answers), nesting=nesting, warm_shapes=warm_shapes)
    if base.answer and any(spec.name == answer_kinds.NAME for spec in base.outputs):
        raise ModelError(f"the model has an output called {answer_kinds.NAME!r}, as what params.answer adds: give it another name")
    attempt = ExportAttempt(source_model, folder, base, probes, answers, timeout_s, tuple(skip))
    first = attempt.make(())
    if isinstance(first, Candidate):
        return _answering(first, folder, answers), []
    findings, others = list[Finding](), list[str]()
    for programs in shape_buckets.choices(base.inputs, sizes):
        made = attempt.make(programs)
        findings.append(shape_buckets.price(programs, base.inputs, str(first), None if isinstance(made, Candidate) else str(made)))
        if isinstance(made, Candidate):
            return _answering(made, folder, answers), findings
        if str(made) != str(first):
            others.append(findings[-1].message)
    if isinstance(first, WrongError):  # verify reports why it is wrong
        again = attempt.make((), trusting=True)
        if isinstance(again, Candidate):
            return _answering(again, folder, answers), findings
        raise again
    raise type(first)("; ".join([str(first), *others]))


def _answering(made: Candidate, folder: Path, outputs: Sequence[Arrays]) -> Candidate:
    """The candidate, once it makes the answers of params.answer from eager's outputs. Raises CandidateError."""
    if answering := answer_kinds.load(folder, made):
        for batch in outputs:
            answering.rows(batch)
    return made


_UNUSED = "is not involved in the target_vars calculation"  # Paddle's message


class SavedProgram(NamedTuple):
    """Facts about a saved program: hash of its weights, source of each output (index in the program or input name), constants."""

    weights: str
    sources: dict[str, int | str]
    constants: dict[str, Any]


class RankError(ModelError):
    """An output that has another number of dimensions for other sizes of the inputs."""

    advice = "return one number of dimensions for every size: name the axis of squeeze(), as in squeeze(axis=1)"


class WrongError(ModelError):
    """A program that converts, and answers differently from eager."""


@dataclass(frozen=True)
class ExportAttempt:
    """The inputs of an attempt to export."""

    source_model: SourceModel
    folder: Path
    base: Candidate
    probes: Sequence[Batch]
    answers: Sequence[Arrays]
    timeout_s: float
    skip: tuple[str, ...]

    def make(self, programs: tuple[Program, ...], *, trusting: bool = False) -> Candidate | BadInput:
        """The candidate with these programs (none: one program keeps every dimension), or the error."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            candidate = self._save(programs)
            with isolate.Isolated("the exported program", runtimes.load, self.folder, timeout_s=self.timeout_s) as program:
                exported = [program.call("run", probe) for probe in self.probes]
        except BadInput as obstacle:
            return obstacle
        return candidate if trusting else self._compared(exported) or candidate

    def _save(self, programs: tuple[Program, ...]) -> Candidate:
        saved = SavedProgram("", {}, {})
        for program in programs or (Program(".", {}),):
            (self.folder / program.folder).mkdir(exist_ok=True)
            specs = shape_buckets.fixed(self.base.inputs, program.sizes)
            saved = isolate.run(
                "the export", save_program, self.source_model, self.folder / program.folder, specs, self.skip, timeout_s=self.timeout_s
            )
        if self.base.answer and answer_registry.of(self.base.answer).own_code:
            bundle.copy_code(self.source_model.code, self.folder)
        check_form(self.source_model.model.title, [spec.name for spec in self.base.outputs], structure.constants(self.base.nesting), saved)
        return replace(self.base, sources=saved.sources, weights_sha256=saved.weights, programs=programs).save(self.folder)

    def _compared(self, exported: Sequence[Arrays]) -> WrongError | None:
        """The first output that plainly differs from eager; `verify` makes the full comparison."""
        for probe, expected, answer in zip(self.probes, self.answers, exported, strict=True):
            for name, array in expected.items():
                shape = _shapes(probe)
                if answer[name].shape != array.shape:
                    return WrongError(f"the program answers {shape} with {name}{list(answer[name].shape)}, eager with {list(array.shape)}")
                if not differences.roughly_equal(array, answer[name]):
                    return WrongError(f"the program answers {shape} with other values of {name} than eager")
        return None


def check_form(factory: str, names: Sequence[str], constants: Mapping[str, Any], saved: SavedProgram) -> None:
    """Raise ModelError if eager's output names or constants differ from the program's."""
    if list(saved.sources) != list(names):
        raise ModelError(
            f"{factory!r} returns {', '.join(names)} in eager mode, and {', '.join(saved.sources)} while it is converted: "
            "return the same things at every call, and tensors for what depends on the inputs"
        )
    if saved.constants != constants:
        raise ModelError(
            f"{factory!r} returns {dict(constants)} beside its tensors in eager mode, and {saved.constants} while it is converted: "
            "return them as tensors"
        )


def describe_outputs(specs: Sequence[TensorSpec], probes: Sequence[Batch], answers: Sequence[Arrays]) -> tuple[TensorSpec, ...]:
    """Names, dtypes and shapes of the outputs; a dimension that changed with the probes is named after its input dimension."""
    sizes: dict[str, list[int]] = {}
    for spec in specs:
        for axis, size in enumerate(spec.shape):
            if isinstance(size, str):
                sizes.setdefault(size, [probe[spec.name].shape[axis] for probe in probes])
    outputs = []
    for name, first in answers[0].items():
        shapes = [answer[name].shape for answer in answers]
        if other := next((index for index, seen in enumerate(shapes) if len(seen) != len(shapes[0])), None):
            message = f"output {name!r} has the shape {list(shapes[0])} for {_shapes(probes[0])}, and {list(shapes[other])} for "
            raise RankError(f"{message}{_shapes(probes[other])}: {RankError.advice}")
        shape: list[int | str] = []
        for axis, seen in enumerate(zip(*shapes, strict=True)):
            follows = next((dimension for dimension, values in sizes.items() if list(seen) == values), None)
            fixed = len(set(seen)) == 1 and follows is None
            shape.append(seen[0] if fixed else follows or f"{name}_{axis}")
        outputs.append(TensorSpec(name, str(first.dtype), tuple(shape)))
    if not outputs:
        raise OutputError("forward returned no tensor: return what the server should answer")
    return tuple(outputs)


def _shapes(batch: Batch) -> str:
    return ", ".join(f"{name}{list(array.shape)}" for name, array in batch.items())


def save_program(source_model: SourceModel, folder: Path, specs: Sequence[TensorSpec], skip: Sequence[str] = ()) -> SavedProgram:
    """Convert a fresh instance and save it.

    Run it in a child process: Paddle may crash, and an instance or process that has converted or answered before may put remembered
    state into the program. Raises ModelError with the user's line.
    """
    layer = source_model.build()
    weights = building.restore(layer, source_model.checkpoint)
    layer.eval()
    _leave_to_python(layer, skip)
    names = tensor_names.collect(layer)
    try:
        with resolved_conditions.watching(layer) as decisions:
            sources, constants = convert_layer(
                layer, folder, building.form(layer, source_model.model).give({spec.name: spec for spec in specs})
            )
    except ModelError:
        raise
    except Exception as failure:
        factory, doctor = source_model.model.title, "`paddleship doctor` (of this model: --params FILE)"
        if _UNUSED in str(failure):
            raise ModelError(
                f"{factory!r} takes an input that no output depends on, which Paddle does not export: use it, or remove it from forward "
                f"and model.inputs; {doctor} names it"
            ) from None
        raise ModelError(
            f"{factory!r} does not convert to a static graph ({explain(failure)}): {doctor} names the line and what to change"
        ) from None
    regions.write(folder, regions.decisions(decisions))
    tensor_names.write(folder, names)
    return SavedProgram(weights, sources, constants)


def _leave_to_python(layer: Any, skip: Sequence[str]) -> None:
    """Let Paddle call the named sublayers without rewriting their code."""
    import paddle

    parts = dict(layer.named_sublayers())
    for name in skip:
        if name not in parts:
            raise ModelError(f"export.skip names {name!r}, which is no sublayer (there are {', '.join(list(parts)[:8])}): correct it")
        parts[name].forward = paddle.jit.not_to_static(parts[name].forward)


def convert_layer(layer: Any, folder: Path, arguments: Sequence[Any]) -> tuple[dict[str, int | str], dict[str, Any]]:
    """Convert a layer in evaluation mode and save it as `model` in `folder`. Returns the sources of its outputs, and constants.

    `arguments` are those of forward, with a TensorSpec in place of each tensor. Raises Paddle's own errors.
    """
    import paddle

    static = building.to_static(layer, arguments)
    program = static.forward.concrete_program
    result = program.outputs[0] if len(program.outputs) == 1 else program.outputs
    tree, named = describe(result, lambda value: isinstance(value, paddle.pir.Value))
    sources, options = _trace_outputs(named, program.outputs)
    paddle.jit.save(static, str(folder / "model"), **options)
    return sources, structure.constants(tree)


def _trace_outputs(named: Mapping[str, Any], outputs: Any) -> tuple[dict[str, int | str], dict[str, Any]]:
    """The source of each output of forward, and the option of `jit.save` that leaves out inputs which forward passes through.

    Paddle flattens outputs (dicts by sorted key), gives a passed-through input its own name, which no predictor accepts, and drops a
    tensor that is returned twice.
    """
    import paddle

    distinct: list[Any] = []
    for value in paddle.utils.flatten(outputs):
        if isinstance(value, paddle.pir.Value) and not any(value.is_same(other) for other in distinct):
            distinct.append(value)
    passed = {position: _input_name(value) for position, value in enumerate(distinct)}
    returned = [position for position, name in passed.items() if name is None]
    if not returned:
        raise OutputError("forward computes nothing (its outputs are its inputs): return what the server should answer")
    sources: dict[str, int | str] = {}
    for name, value in named.items():
        position = next(index for index, other in enumerate(distinct) if value.is_same(other))
        sources[name] = passed[position] or returned.index(position)
    return sources, {} if len(returned) == len(distinct) else {"output_spec": returned}


def _input_name(value: Any) -> str | None:
    """The name of the input that `value` is; None if it is computed."""
    origin = value.get_defining_op()
    return str(origin.attrs()["name"]) if origin is not None and origin.name() == "pd_op.data" else None


def probe_batches(collate: Any, examples: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> list[Batch]:
    """Three batches with different sizes, and different lengths if rows differ in length."""
    order = sorted(range(len(examples)), key=lambda index: sum(array.size for array in examples[index].values()))
    middle = len(order) // 2
    chosen = (order[:2], order[middle : middle + 3], order[-5:])
    return [collate([examples[index] for index in indices]) for indices in chosen]
