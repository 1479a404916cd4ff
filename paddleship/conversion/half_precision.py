"""Convert model.onnx to float16; operators whose numbers float16 cannot hold stay in float32. For child processes.

The operators are found by running the calibration rows on the CPU. An operator stays if it reads or writes a number near the largest of
float16, or if rounding all others to float16 gives an infinity or NaN that float32 does not give. `verify` judges the decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.conversion import rounded_program
from paddleship.conversion.rounded_program import TensorValues
from paddleship.errors import CandidateError
from paddleship.shipped.computing.preprocess import Batch

KEPT = "float32_operators"  # the option of a candidate that lists the operators that stay in float32
_LARGEST = float(np.finfo(np.float16).max) / 4  # other rows may have larger numbers than the calibration rows
_ROUNDS = 8
_BATCHES = 16  # that are run
_NAMED = 5  # names of a type of operators in a report
_TO_SMALL = ("graph_input_cast", "_cast_to_fp16_node")  # how the converter names the casts that it adds
_TO_WIDE = ("graph_output_cast", "_cast_to_fp32_node")


def convert(source: Path, target: Path, batches: Sequence[Batch]) -> dict[str, str]:
    """Write the program in float16, with inputs and outputs in float32. Returns which operators stay in float32. Raises CandidateError."""
    import onnx

    if not batches:
        raise CandidateError("no row of the training part fits this program, so it is unknown where float16 overflows")
    model = onnx.load(str(source / "model.onnx"))
    if inside := sorted({operator.op_type for operator in model.graph.node if any(each.HasField("g") for each in operator.attribute)}):
        raise CandidateError(f"the conversion to float16 takes no program with an ONNX {' or '.join(inside)}: use another precision")
    _name(model.graph)
    samples = [{item.name: batch[item.name] for item in model.graph.input} for batch in batches[:_BATCHES]]
    kept = _operators_to_keep(model, samples)
    made = _converted(model, kept)
    outputs = rounded_program.run(made, samples)
    if any(_breaks(mine, theirs) for mine, theirs in zip(outputs, rounded_program.run(model, samples), strict=True)):
        raise CandidateError("the converted program gives infinities or NaN that the float32 program does not: use another precision")
    onnx.save(made, str(target / "model.onnx"))
    return {KEPT: _listed(model.graph, kept)}


def _name(graph: Any) -> None:
    """Give every operator a name of its own."""
    seen = Counter[str]()
    for index, operator in enumerate(graph.node):
        seen[operator.name] += 1
        if not operator.name or seen[operator.name] > 1:
            operator.name = f"{operator.op_type}_{index}"


def _operators_to_keep(model: Any, samples: Sequence[Batch]) -> set[str]:
    """The names of the operators that must compute in float32. Raises CandidateError if that does not help."""
    first = next(rounded_program.values(model, samples[:1]))
    floats = {name for name, array in first.items() if array.dtype == np.float32}
    kept = _with_large_numbers(model, samples)
    for depth in range(_ROUNDS):
        if not (broken := _first_broken(model, samples, floats, kept)):
            return kept
        kept |= _with_sources(model.graph, broken, depth)
    raise CandidateError(
        f"float16 gives infinities or NaN that float32 does not, also with {len(kept)} of {len(model.graph.node)} operators in float32: "
        "use another precision"
    )


def _with_large_numbers(model: Any, samples: Sequence[Batch]) -> set[str]:
    """The operators that read or write a number near the largest of float16; an infinity is the same in float16."""
    from onnx.numpy_helper import to_array

    sizes: dict[str, float] = {tensor.name: _size(to_array(tensor)) for tensor in model.graph.initializer}
    for tensors in rounded_program.values(model, samples):
        for name, array in tensors.items():
            sizes[name] = max(sizes.get(name, 0.0), _size(array))
    return {
        operator.name
        for operator in model.graph.node
        if any(sizes.get(name, 0.0) > _LARGEST for name in (*operator.input, *operator.output))
    }


def _first_broken(model: Any, samples: Sequence[Batch], floats: set[str], kept: set[str]) -> set[str]:
    """The operators that first give an infinity or NaN which they do not give in float32."""
    found: set[str] = set()
    rounded = rounded_program.values(model, samples, floats=floats, kept=kept)
    for exact, mine in zip(rounded_program.values(model, samples), rounded, strict=True):
        bad = {name for name in mine if _breaks({name: mine[name]}, exact)}
        found |= {one.name for one in model.graph.node if bad.intersection(one.output) and not bad.intersection(one.input)}
    return found


def _with_sources(graph: Any, names: set[str], depth: int) -> set[str]:
    """These operators and those that their inputs come from, so many levels back: small numbers may have become zero there."""
    makers = {name: operator for operator in graph.node for name in operator.output}
    level, found = [operator for operator in graph.node if operator.name in names], set(names)
    for _ in range(depth):
        level = [makers[name] for operator in level for name in operator.input if name in makers]
        found |= {operator.name for operator in level}
    return found


def _converted(model: Any, kept: set[str]) -> Any:
    """A copy of the model in float16, in which kept operators hand their numbers to each other in float32."""
    import onnx
    from onnxruntime.transformers import float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    made = float16.convert_float_to_float16(copy, keep_io_types=True, node_block_list=sorted(kept))
    _deduplicate(made.graph)
    small = {operator.output[0]: operator.input[0] for operator in made.graph.node if _is_cast(operator, _TO_SMALL)}
    for operator in made.graph.node:
        if _is_cast(operator, _TO_WIDE) and operator.input[0] in small:  # the converter casts to float16 and back
            operator.op_type, operator.input[0] = "Identity", small[operator.input[0]]
            del operator.attribute[:]
    OnnxModel(made).topological_sort()
    return made


def _deduplicate(graph: Any) -> None:
    """Remove repeated casts: the converter adds one for each use of a number."""
    seen: set[str] = set()
    for index, operator in reversed(list(enumerate(graph.node))):
        if seen.intersection(operator.output):
            del graph.node[index]
        seen.update(operator.output)


def _is_cast(operator: Any, names: tuple[str, str]) -> bool:
    name, kind = str(operator.name), str(operator.op_type)
    return kind == "Cast" and (name.startswith(names[0]) or name.endswith(names[1]))


def _size(array: Any) -> float:
    """The largest finite number of an array, without its sign; integers count, because a cast may make them floats."""
    if array.dtype.kind not in "fiu":
        return 0.0
    wide = np.abs(array.astype(np.float64))
    return float(np.where(np.isfinite(wide), wide, 0).max(initial=0))


def _breaks(mine: TensorValues, exact: TensorValues) -> bool:
    """Whether a number is infinite or NaN that is finite in float32."""
    return any(array.dtype.kind == "f" and bool((np.isfinite(exact[name]) & ~np.isfinite(array)).any()) for name, array in mine.items())


def _listed(graph: Any, kept: set[str]) -> str:
    """The kept operators by type, in the order of the graph, with the first names of each."""
    found: dict[str, list[str]] = {}
    for operator in graph.node:
        if operator.name in kept:
            found.setdefault(operator.op_type, []).append(operator.name)
    return "; ".join(_few(kind, names) for kind, names in found.items()) or "none"


def _few(kind: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{kind} ({', '.join(names[:_NAMED])}{more})"
