"""The second step of reading a request: from the tensors that a transport has decoded to columns that fit the model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving import texts
from paddleship.shipped.serving.datatypes import DATATYPES, shape

Column = np.ndarray[Any, Any] | list[Any]
Columns = dict[str, Column]  # by input name, with one entry per row


class ModelInputs(Columns):
    """Columns that already are the inputs of the model, of a request that switches preprocessing off by the parameter `RAW_TENSORS`."""


RAW_TENSORS = "raw_tensors"


class Tensor(Protocol):
    """One input of a request. `name` and `datatype` are what the client wrote, of any type."""

    @property
    def name(self) -> object: ...

    @property
    def datatype(self) -> object: ...

    def decode(self) -> Column:
        """The array in its shape, or the texts. Called once name and datatype are known to fit. Raises RequestError."""


def check(tensors: Iterable[Tensor], specs: Sequence[TensorSpec], *, max_batch: int) -> Columns:
    """The columns of a request for the inputs `specs`. Raises RequestError."""
    tensors, known = list(tensors), {spec.name: spec for spec in specs}
    _check_names([tensor.name for tensor in tensors], known)
    columns = {str(tensor.name): _column(tensor, known[str(tensor.name)]) for tensor in tensors}
    _check_rows(columns, max_batch)
    texts.check(columns)
    return columns


def _check_names(names: Sequence[object], known: Mapping[str, TensorSpec]) -> None:
    for name in names:
        if name not in [*known]:  # a list, because the client's value may not be hashable
            raise RequestError(f"there is no input {name!r}: this model takes {', '.join(known)}")
    if twice := [name for name in known if names.count(name) > 1]:
        raise RequestError(f"input {twice[0]!r} is given twice: send each input once")
    if absent := [name for name in known if name not in names]:
        raise RequestError(f"input {absent[0]!r} is missing: send every input of the model")


def _column(tensor: Tensor, spec: TensorSpec) -> Column:
    if tensor.datatype != DATATYPES[spec.dtype]:
        raise RequestError(f"input {spec.name!r} has the datatype {tensor.datatype!r}: send {DATATYPES[spec.dtype]}")
    column = tensor.decode()
    sizes = list(column.shape) if isinstance(column, np.ndarray) else [len(column)]
    if len(sizes) != len(spec.shape):
        raise RequestError(f"input {spec.name!r} has the shape {sizes}, the model takes {shape(spec)}: send that shape")
    if spec.dtype == "str" and (strange := [value for value in column if not isinstance(value, str)]):
        raise RequestError(f"input {spec.name!r} must be text (got {type(strange[0]).__name__})", "give a string")
    if 0 in sizes[1:]:
        raise RequestError(f"input {spec.name!r} has the shape {sizes}, so its rows are empty: send at least one value per row")
    return column


def _check_rows(columns: Columns, max_batch: int) -> None:
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise RequestError(
            f"the inputs have different numbers of rows ({', '.join(map(str, sorted(sizes)))}): send the same number in each"
        )
    size = sizes.pop()
    if not size:
        raise RequestError(f"the request has no rows, this server takes 1 to {max_batch}: send at least one")
    if size > max_batch:
        raise RequestError(f"the request has {size} rows, this server takes 1 to {max_batch}: split it")
