"""Read an exported program with Paddle, and write it as the table that `paddleship.shipped.computing.program_layer` runs.

Run it in a child process: Paddle's reader may end the process at a damaged file. Nothing of the program is run here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.errors import ModelError
from paddleship.model.exported_file import signatures
from paddleship.model.exported_file.signatures import Parameter
from paddleship.shipped.computing import program_layer

SCHEMA_VERSION = 1
_DIALECT = "pd_op."
_CONSTANTS = frozenset({"pd_op.full", "pd_op.full_int_array"})
_OUTSIDE = frozenset({"file_path", "filename", "file_name", "ring_id", "dso_handle", "forward_callable_id"})
"""Attributes of operators that read files, run code or talk to other processes."""
_OWN_PROCESS = frozenset({"py_func", "run_program", "py_layer", "print"})
_TRAINING = "it is a program for training: export the model with paddle.jit.save, or prune it with paddle.static.save_inference_model"


def read(path: Path) -> dict[str, Any]:
    """The table of the program in a `.json` or `.pdmodel`. Raises ModelError."""
    return table_of(_load(path), path)


def table_of(program: Any, path: Path) -> dict[str, Any]:
    """The table of a program of Paddle, which was read from `path`. Raises ModelError."""
    return _Translation(str(path)).table(program.global_block())


def _load(path: Path) -> Any:
    import paddle
    from paddle.base import core

    try:
        if path.suffix == ".json":
            program = paddle.static.Program()
            core.deserialize_pir_program(str(path), program, 1)
            return program
        return paddle.pir.translate_to_pir(core.ProgramDesc(path.read_bytes()))
    except Exception as failure:
        reason = next((line.strip() for line in reversed(str(failure).splitlines()) if line.strip()), type(failure).__name__)
        raise ModelError(f"{str(path)!r} is no program that Paddle {paddle.__version__} reads ({reason[:200]}): export it again") from None


class _Translation:
    """Numbers the values of one program, and writes its operators."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._numbers: dict[int, int] = {}  # of Paddle's values
        self._vectors: dict[int, list[int]] = {}  # values that are lists of others
        self._constants: dict[int, Any] = {}  # operators that make a number or a list of numbers
        self._parameters: list[dict[str, Any]] = []
        self._inputs: list[dict[str, Any]] = []
        self._outputs: list[dict[str, Any]] = []

    def table(self, block: Any) -> dict[str, Any]:
        operators = self._operators(block.ops)
        if not self._outputs:
            raise ModelError(f"{self._path!r} names no outputs: {_TRAINING}")
        return {
            "schema_version": SCHEMA_VERSION,
            "parameters": self._parameters,
            "inputs": self._inputs,
            "operators": _without_unused(operators, {item["value"] for item in self._outputs}),
            "outputs": self._outputs,
        }

    def _operators(self, operators: Sequence[Any]) -> list[dict[str, Any]]:
        return [made for operator in operators for made in self._operator(operator)]

    def _operator(self, operator: Any) -> Iterator[dict[str, Any]]:
        name = operator.name()
        if name == "builtin.parameter":
            self._add_parameter(operator)
        elif name in ("pd_op.data", "pd_op.feed"):
            self._inputs.append(self._tensor(operator, operator.result(0)))
        elif name == "pd_op.fetch":
            self._outputs.append({"name": operator.attrs()["name"], "value": self._number(operator.operand_source(0))})
        elif name == "builtin.combine":
            self._vectors[operator.result(0).id] = [self._number(value) for value in operator.operands_source()]
        elif name in ("builtin.split", "builtin.slice"):
            yield self._items(operator)
        elif name == "pd_op.if":
            yield self._branches(operator)
        elif name == "pd_op.while":
            yield self._loop(operator)
        elif name != "cf.yield":
            yield self._call(operator)

    def _add_parameter(self, operator: Any) -> None:
        attributes, value = operator.attrs(), operator.result(0)
        saved = bool(attributes.get("persistable", [True])[0])
        dtype = _dtype(value.dtype)
        trained = saved and dtype.startswith("float") and not attributes["stop_gradient"][0]
        self._parameters.append(self._tensor(operator, value, "parameter_name") | {"trained": trained, "saved": saved})

    def _tensor(self, operator: Any, value: Any, key: str = "name") -> dict[str, Any]:
        return {"name": operator.attrs()[key], "dtype": _dtype(value.dtype), "shape": list(value.shape), "value": self._number(value)}

    def _items(self, operator: Any) -> dict[str, Any]:
        vector = operator.operand_source(0)
        indices = [operator.attrs()["index"]] if operator.name() == "builtin.slice" else list(range(operator.num_results()))
        return {"items": self._number(vector), "indices": indices, "results": self._results(operator), "nested": True}

    def _branches(self, operator: Any) -> dict[str, Any]:
        branch = operator.as_if_op()
        blocks = [self._block(block, ()) for block in (branch.true_block(), branch.false_block())]
        return {"if": self._number(branch.cond()), "blocks": blocks, "results": self._results(operator)}

    def _loop(self, operator: Any) -> dict[str, Any]:
        loop, (condition, *start) = operator.as_while_op(), operator.operands_source()
        body = self._block(loop.body(), loop.block_arguments())
        return {
            "while": self._number(condition),
            "start": [self._number(value) for value in start],
            "blocks": [body],
            "results": self._results(operator),
            "nested": True,
        }

    def _block(self, block: Any, arguments: Sequence[Any]) -> dict[str, Any]:
        taken = [self._number(value) for value in arguments]
        operators = self._operators(block.ops)
        yields = [self._number(value) for value in block.ops[-1].operands_source()]
        return {"arguments": taken, "operators": operators, "yields": yields}

    def _call(self, operator: Any) -> dict[str, Any]:
        """The call of an operator's function. Raises ModelError for an operator without one, or of training, files or own code."""
        name, attributes = operator.name().removeprefix(_DIALECT), operator.attrs()
        self._require_calculation(operator.name(), attributes)
        try:
            inputs = dict(zip(operator.get_input_names(), operator.operands_source(), strict=True))
            arguments = [self._argument(parameter, inputs, attributes) for parameter in _parameters(name)]
            hidden = operator.get_output_intermediate_status()
        except (LookupError, ValueError) as odd:
            raise ModelError(f"{self._path!r} holds the operator {name!r}, which cannot be called ({odd}): {_REPORT}") from None
        if operator.name() in _CONSTANTS:
            self._constants[operator.result(0).id] = _constant(attributes, operator.result(0))
        results = [self._number(value) for value, inner in zip(operator.results(), hidden, strict=True) if not inner]
        return {"call": name, "arguments": arguments, "results": results}

    def _require_calculation(self, name: str, attributes: Mapping[str, Any]) -> None:
        short = name.removeprefix(_DIALECT)
        if not name:
            raise ModelError(f"{self._path!r} holds an operator that this Paddle does not know: {_REPORT}")
        if short.rstrip("_").endswith("_grad") or name == "builtin.set_parameter":
            raise ModelError(f"{self._path!r} holds the operator {short!r}: {_TRAINING}")
        if not name.startswith(_DIALECT) or short in _OWN_PROCESS or _OUTSIDE & attributes.keys():
            reason = "which is no calculation of Paddle (custom operators, Python functions, files, other processes are not run)"
            raise ModelError(f"{self._path!r} holds the operator {name!r}, {reason}: export the model without it")

    def _argument(self, parameter: Parameter, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        if parameter.name == "axis" and attributes.get("flatten"):  # of argmax, whose function has no `flatten`
            return None
        if parameter.name in inputs:
            return self._operand(parameter, inputs[parameter.name])
        if parameter.name not in attributes:
            raise LookupError(f"it has no {parameter.name!r}")
        return _literal(attributes[parameter.name])

    def _operand(self, parameter: Parameter, value: Any) -> Any:
        if not value.initialized():
            return None
        if parameter.constant and value.id in self._constants:
            known = self._constants[value.id]
            return known[0] if parameter.number and isinstance(known, list) and len(known) == 1 else known
        if value.id in self._vectors:
            return {"sizes" if parameter.constant else "values": self._vectors[value.id]}
        return {"value": self._number(value)}

    def _results(self, operator: Any) -> list[int]:
        return [self._number(value) for value in operator.results()]

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(value.id, len(self._numbers))


_REPORT = "export the model with the Paddle that is installed here, or install the Paddle that exported it"


def _parameters(name: str) -> tuple[Parameter, ...]:
    known = signatures.of_paddle()
    found = known.get(name) or known.get(name.removesuffix("_"))
    if found is None:
        raise LookupError("Paddle has no function of that name")
    return found


def _constant(attributes: Mapping[str, Any], value: Any) -> Any:
    """The number or list of numbers that the operator makes; a tensor of one size becomes a list."""
    kept = attributes["value"]
    if isinstance(kept, list):
        return kept
    number = bool(kept) if _dtype(value.dtype) == "bool" else kept if "float" in _dtype(value.dtype) else int(kept)
    return [number] * math.prod(value.shape) if value.shape else number


def _literal(value: Any) -> Any:
    """An attribute as JSON."""
    if isinstance(value, list | tuple):
        return [_literal(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value).__name__
    if kind == "Place":
        return {"place": None}
    if kind in ("DataType", "VarType"):
        return {"dtype": _dtype(value)}
    raise ValueError(f"an attribute is a {kind}")


def _dtype(value: Any) -> str:
    return str(value).rpartition(".")[2].lower()


def _without_unused(operators: list[dict[str, Any]], outputs: set[int]) -> list[dict[str, Any]]:
    """The operators without constants that nothing uses, because they became arguments."""
    used = outputs | set(_used(operators))

    def keep(operator: dict[str, Any]) -> bool:
        return f"{_DIALECT}{operator.get('call')}" not in _CONSTANTS or not used.isdisjoint(operator["results"])

    def shortened(block: dict[str, Any]) -> dict[str, Any]:
        return block | {"operators": [within(operator) for operator in block["operators"] if keep(operator)]}

    def within(operator: dict[str, Any]) -> dict[str, Any]:
        return operator | {"blocks": [shortened(block) for block in operator["blocks"]]} if "blocks" in operator else operator

    return [within(operator) for operator in operators if keep(operator)]


def _used(operators: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """The values that operators, and those in their blocks, use."""
    for operator in operators:
        yield from program_layer.uses(operator)
        for block in operator.get("blocks", ()):
            yield from _used(block["operators"])
            yield from block["yields"]
