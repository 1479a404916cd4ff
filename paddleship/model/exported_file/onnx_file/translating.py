"""Read an `.onnx` file, and write it as the table that `paddleship.shipped.computing.program_layer` runs.

Its operators are written with Paddle's functions into a program of Paddle, which is then read like an exported one. Run it in a child
process: it turns Paddle's static mode on, and a damaged file may end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any

from paddleship.errors import ModelError
from paddleship.model.exported_file import translating
from paddleship.model.exported_file.onnx_file import proto, values
from paddleship.model.exported_file.onnx_file.graph import Graph, unique
from paddleship.model.exported_file.onnx_file.node import Source
from paddleship.model.exported_file.onnx_file.values import Array
from paddleship.shipped.computing import program_layer

_DTYPES = ("float32", "float64", "int32", "int64", "bool")


@dataclass(frozen=True)
class _Input:
    """`original` is its name in the file."""

    name: str
    original: str
    shape: Sequence[int]
    dtype: str


class Translation:
    """The program of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._model = proto.read(path)
        self._inputs = list(self._named(proto.inputs(self._model.graph)))

    def inputs(self) -> list[dict[str, Any]]:
        """The inputs, in the order of the file; a dynamic size is -1. Their names are those that an argument may have.

        A file that takes one row is written for any number of them. Inputs that change no output are left out.
        """
        return [{"name": item.name, "dtype": item.dtype, "shape": _any_rows(item.shape)} for item in self._inputs]

    def read(self, fixed: Mapping[str, Sequence[int]]) -> tuple[dict[str, Any], dict[str, Array]]:
        """The table for inputs of these sizes, of which -1 is dynamic, and the arrays of its parameters. Raises ModelError."""
        import paddle

        paddle.enable_static()
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            one_row = any(list(item.shape[:1]) == [1] for item in self._inputs)
            graph = Graph(Source(str(self._path), proto.version(self._model, self._path), one_row))
            self._write(graph, fixed)
        table = translating.table_of(program, self._path)
        inputs = {item["name"]: item for item in table["inputs"]}
        return table | {"inputs": [inputs[item.name] for item in self._inputs], "operators": _needed(table)}, graph.weights

    def _write(self, graph: Graph, fixed: Mapping[str, Sequence[int]]) -> None:
        """Write the graph into Paddle's current program."""
        import paddle

        given = {item.original: paddle.static.data(item.name, list(fixed[item.name]), item.dtype) for item in self._inputs}
        made = graph.write(self._model.graph, given)
        for index, item in enumerate(self._model.graph.output):
            if item.name not in made:
                raise ModelError(f"{str(self._path)!r} has the output {item.name!r}, which no operator makes: export it again")
            paddle._C_ops.fetch(paddle.assign(graph.tensor(made[item.name], item.name)), item.name, index)

    def _named(self, items: Sequence[Any]) -> Iterator[_Input]:
        """These inputs. Raises ModelError."""
        for name, item in zip(arguments([item.name for item in items]), items, strict=True):
            yield _Input(name, item.name, *self._type(item))

    def _type(self, item: Any) -> tuple[list[int], str]:
        tensor = item.type.tensor_type
        dtype = values.name_of_type(tensor.elem_type)
        if (kind := _kind(item)) in ("float16", "bfloat16"):
            raise ModelError(f"{str(self._path)!r} takes {item.name!r} as {kind}: {values.IN_FLOAT32}")
        if dtype not in _DTYPES:
            raise ModelError(f"{str(self._path)!r} takes {item.name!r} as {_kind(item)}, expected {', '.join(_DTYPES)}: export it with one")
        if not tensor.HasField("shape"):
            raise ModelError(f"{str(self._path)!r} does not say how many dimensions {item.name!r} has: export it with its shapes")
        return [size.dim_value if size.dim_value > 0 else -1 for size in tensor.shape.dim], dtype


def _any_rows(shape: Sequence[int]) -> list[int]:
    return [-1, *shape[1:]] if shape[:1] == [1] else list(shape)


def _kind(item: Any) -> str:
    import onnx

    kind = item.type.tensor_type.elem_type
    return str(onnx.TensorProto.DataType.Name(kind)).lower() if kind else "no tensor"


def _needed(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The operators on whose results the outputs depend."""
    wanted, found = {item["value"] for item in table["outputs"]}, []
    for operator in reversed(table["operators"]):
        if not wanted.isdisjoint(operator["results"]):
            found.append(operator)
            wanted |= set(program_layer.uses(operator))
    return found[::-1]


def arguments(names: Sequence[str]) -> list[str]:
    """The names of inputs as those of arguments: `input.1` becomes `input_1`."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        found.append(unique(plain if plain.isidentifier() and not iskeyword(plain) else f"x_{plain}", found))
    return found
