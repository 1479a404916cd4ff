"""A Paddle layer that runs the operators of an exported program one by one, with the functions that eager code calls.

The program is a table, not Paddle's file: `paddleship.model.exported_file` has already put the arguments of every operator in the order of
its function. A value is named by its number. This module goes into the image, so it imports only Paddle.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

FILE = "program.json"

Table = Mapping[str, Any]  # {"parameters": …, "inputs": …, "operators": [operator], "outputs": …}
Values = dict[int, Any]


def load(path: Path) -> Any:
    """The layer of the program in this file."""
    return build(json.loads(path.read_text(encoding="utf-8")))


def build(program: Table) -> Any:
    """A layer with the program's parameters, all zero, whose `forward` takes the program's inputs by their names.

    Where the program names float32, the layer computes in Paddle's default dtype.
    """
    import paddle

    class ExportedProgram(paddle.nn.Layer):  # type: ignore[misc]
        """The program of an exported file."""

        def __init__(self) -> None:
            super().__init__()
            self._runner = runner = _Runner(program)
            self._tensors = {item["value"]: _add(self, item, runner.dtype(item["dtype"])) for item in program["parameters"]}

        def forward(self, *inputs: Any) -> Any:
            return self._runner.run(self, inputs)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [first.replace(name=item["name"]) for item in program["inputs"]]
    forward: Any = ExportedProgram.forward
    forward.__signature__ = inspect.Signature([first, *others])
    return ExportedProgram()


def _add(layer: Any, item: Mapping[str, Any], dtype: str) -> tuple[Any, str]:
    """Register a parameter below a layer for each part of its name before a dot. Returns that layer, and the name there."""
    import paddle

    *folders, name = item["name"].split(".")
    for folder in folders:
        if folder not in layer._sub_layers:
            layer.add_sublayer(folder, paddle.nn.Layer())
        layer = layer._sub_layers[folder]
    if item["trained"]:
        zero = paddle.nn.initializer.Constant(0.0)
        layer.add_parameter(name, layer.create_parameter(item["shape"], dtype=dtype, default_initializer=zero))
    else:
        layer.register_buffer(name, paddle.zeros(item["shape"], dtype), persistable=item["saved"])
    return layer, name


class _Runner:
    """Runs the operators of a program."""

    def __init__(self, program: Table) -> None:
        import paddle

        self._paddle = paddle
        self._float = paddle.get_default_dtype()
        self._program = program
        self._inputs = [item["value"] for item in program["inputs"]]
        self._outputs = [item["value"] for item in program["outputs"]]
        self._unneeded = _last_uses(program)

    def dtype(self, name: str) -> str:
        return self._float if name == "float32" else name

    @property
    def run(self) -> Callable[[Any, Sequence[Any]], Any]:
        """The function that `forward` calls; `to_static` calls it as it is, without rewriting it."""
        return self._paddle.jit.not_to_static(self._run)  # type: ignore[no-any-return]

    def _run(self, layer: Any, inputs: Sequence[Any]) -> Any:
        values: Values = {number: getattr(*where) for number, where in layer._tensors.items()}
        values |= zip(self._inputs, inputs, strict=True)
        for operator, unneeded in zip(self._program["operators"], self._unneeded, strict=True):
            self._apply(operator, values)
            for number in unneeded:
                del values[number]
        outputs = [values[number] for number in self._outputs]
        return outputs[0] if len(outputs) == 1 else outputs

    def _apply(self, operator: Table, values: Values) -> None:
        if "call" in operator:
            results = self._call(operator["call"], [self._argument(argument, values) for argument in operator["arguments"]])
        elif "items" in operator:
            whole = values[operator["items"]]
            results = tuple(whole[index] for index in operator["indices"])
        elif "if" in operator:
            yes, no = (partial(self._block, block, values) for block in operator["blocks"])
            results = self._paddle.static.nn.cond(values[operator["if"]], yes, no)
        else:
            results = self._loop(operator, values)
        if not isinstance(results, list | tuple) or (len(operator["results"]) == 1 and not operator.get("nested")):
            results = [results]
        values.update(zip(operator["results"], results, strict=True))

    def _call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Call an operator's function. Some that change an input in place have another name in eager mode (`batch_norm`)."""
        paddle = self._paddle
        eager = paddle.in_dynamic_mode() and not hasattr(paddle.base.core.eager.ops, name)
        try:
            return getattr(paddle._C_ops, name.removesuffix("_") if eager else name)(*arguments)
        except Exception as failure:
            reason = next((line.strip() for line in reversed(str(failure).splitlines()) if line.strip()), type(failure).__name__)
            raise RuntimeError(f"the operator {name!r} of the exported program failed: {reason}") from failure

    def _loop(self, operator: Table, values: Values) -> Any:
        (block,) = operator["blocks"]
        start = [values[number] for number in operator["start"]]

        def again(condition: Any, *_: Any) -> Any:
            return condition

        def body(_: Any, *carried: Any) -> Any:
            return list(self._block(block, {**values, **dict(zip(block["arguments"], carried, strict=True))}, nested=True))

        return self._paddle.static.nn.while_loop(again, body, [values[operator["while"]], *start])[1:]

    def _block(self, block: Table, outer: Values, *, nested: bool = False) -> Any:
        values = dict(outer)
        for operator in block["operators"]:
            self._apply(operator, values)
        results = tuple(values[number] for number in block["yields"])
        return results[0] if len(results) == 1 and not nested else results

    def _argument(self, argument: Any, values: Values) -> Any:
        if not isinstance(argument, dict):
            return argument
        ((kind, what),) = argument.items()
        if kind == "value":
            return values[what]
        if kind == "values":
            return [values[number] for number in what]
        if kind == "sizes":  # each without dimensions, as a traced operator expects them
            return [value if list(value.shape) == [] else self._paddle.reshape(value, []) for value in (values[number] for number in what)]
        if kind == "dtype":
            return self._paddle.base.core.DataType.__members__[self.dtype(what).upper()]
        return self._paddle.framework._current_expected_place()


def _last_uses(program: Table) -> list[list[int]]:
    """The values that no operator after each one uses."""
    kept = {item["value"] for item in program["outputs"]}
    unneeded = []
    for operator in reversed(program["operators"]):
        used = {*uses(operator), *operator["results"]}
        unneeded.append(sorted(used - kept))
        kept |= used
    return unneeded[::-1]


def uses(operator: Table) -> Iterator[int]:
    """The values of the whole program that an operator and its blocks use."""
    for argument in operator.get("arguments", ()):
        if isinstance(argument, dict):
            ((kind, what),) = argument.items()
            yield from [what] if kind == "value" else what if kind in ("values", "sizes") else ()
    yield from (operator[key] for key in ("items", "if", "while") if key in operator)
    yield from operator.get("start", ())
    for block in operator.get("blocks", ()):
        inner = {number for part in block["operators"] for number in part["results"]} | set(block["arguments"])
        yield from (number for part in block["operators"] for number in uses(part) if number not in inner)
        yield from (number for number in block["yields"] if number not in inner)
