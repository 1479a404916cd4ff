"""Find ids that are outside of the table they index, such as that of an Embedding: eager Paddle checks only some of them on a CPU.

Of the others it reads memory beside the table, so that the model answers with values of no weight. For a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from paddleship.doctor import watching
from paddleship.errors import ModelError
from paddleship.numerics.differences import Array
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import TensorSpec

Table = tuple[Any, Any, int, bool]  # a tensor, the ids that index it, along which axis, and whether negative ids count from its end


class TableError(ModelError):
    """An id is outside of its table. `advice` is the range to declare."""

    def __init__(self, message: str, *, advice: str, where: str | None) -> None:
        super().__init__(message, where=where)
        self.advice = advice


@contextmanager
def checked(layer: Any, specs: Mapping[str, TensorSpec], inputs: Batch) -> Iterator[None]:
    """Raise TableError in the block where a tensor is indexed by an id that is outside of it."""
    import paddle

    operators, kind = paddle._C_ops, paddle.Tensor
    originals = {name: getattr(operators, name) for name in _OPERATORS}
    read = kind.__getitem__

    def check(table: Table) -> None:
        tensor, ids, axis, negative = table
        values, rows = np.asarray(ids), int(tensor.shape[axis])
        beyond = values[(values < (-rows if negative else 0)) | (values >= rows)] if values.dtype.kind in "iu" else values[:0]
        if beyond.size:
            raise _error(_name(layer, tensor), rows, beyond.flat[0], values, specs, inputs)

    def guarding(name: str) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            check(_OPERATORS[name](*arguments))
            return originals[name](*arguments, **options)

        return guarded

    def item(self: Any, index: Any) -> Any:
        for axis, ids in _indices(index, self.ndim):
            check((self, ids, axis, True))
        return read(self, index)

    try:
        for name in originals:
            setattr(operators, name, guarding(name))
        kind.__getitem__ = item
        yield
    finally:
        kind.__getitem__ = read
        for name, original in originals.items():
            setattr(operators, name, original)


_OPERATORS: dict[str, Callable[..., Table]] = {
    "embedding": lambda ids, table, *_: (table, ids, 0, False),
    "gather": lambda table, ids, axis=0, *_: (table, ids, int(axis), True),
    "index_select": lambda table, ids, axis=0, *_: (table, ids, int(axis), True),
    "index_sample": lambda table, ids, *_: (table, ids, 1, False),
}


def _indices(index: Any, rank: int) -> Iterator[tuple[int, Any]]:
    """The axes of a tensor that an index of it reads by id, with the ids; negative axes after an ellipsis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    axis = 0
    for number, part in enumerate(parts):
        if part is None or isinstance(part, bool):
            continue
        if part is Ellipsis:
            axis = rank - sum(_axes(other) for other in parts[number + 1 :])
            continue
        if hasattr(part, "ndim") and hasattr(part, "dtype") and _axes(part) == 1:
            yield axis, part
        axis += _axes(part)


def _axes(part: Any) -> int:
    """How many axes a part of an index takes."""
    if part is None or isinstance(part, bool):
        return 0
    return int(part.ndim) if "bool" in str(getattr(part, "dtype", "")) else 1


def _name(layer: Any, table: Any) -> str:
    """The layer or weight that holds the table."""
    tensors = [*layer.named_parameters(), *layer.named_buffers()]
    name = next((name for name, tensor in tensors if tensor is table), "")
    owner = dict(layer.named_sublayers()).get(name.rpartition(".")[0])
    if owner is not None and name.endswith(".weight"):
        return f"{type(owner).__name__} {name.removesuffix('.weight')!r}"
    return repr(name) if name else "a tensor that forward indexes"


def _error(table: str, rows: int, wrong: Any, ids: Array, specs: Mapping[str, TensorSpec], inputs: Batch) -> TableError:
    message = f"id {wrong} is outside of the table of {rows} rows of {table}, and eager mode reads memory beside it or fails"
    name = next((name for name, array in inputs.items() if array.size == ids.size and np.array_equal(array.ravel(), ids.ravel())), None)
    if name is None:
        advice = f"declare a range of the input that the ids come from with which they are within 0..{rows - 1}: --input 'NAME:…=LOW..HIGH'"
    else:
        dimensions = ",".join(map(str, specs[name].shape))
        advice = f"declare the range of its ids: --input '{name}:{specs[name].dtype}[{dimensions}]=0..{rows - 1}', or enlarge the table"
    return TableError(message, advice=advice, where=watching.caller())
