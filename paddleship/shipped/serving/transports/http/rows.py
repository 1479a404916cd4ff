"""`POST /predict`: rows as JSON objects with the columns of the model, or a file as the whole body, and a short answer for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from paddleship.errors import RequestError
from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.datatypes import DATATYPES
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http import protocol
from paddleship.shipped.serving.transports.http.http_request import HttpRequest

LABEL, TRUNCATED = "label", "truncated"


class RowsRequest(HttpRequest):
    """A request of one row or of a list of them, which is answered by one object or by a list of them."""

    _is_list, _count = False, 1

    def _columns(self) -> Columns:
        if self._body.raw:
            return self._model.columns_of_raw(self._body.content)
        if self._body.binary:
            raise RequestError("rows have no binary tensors: send JSON alone, or the request to /v2/models/NAME/infer")
        rows = _parse(self._body.content, self._model.model)
        self._is_list = isinstance(rows, list)
        rows = rows if self._is_list else [rows]
        self._count = len(rows)
        return columns(rows, self._model.model)

    def encode(self, outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]]) -> bytes:
        """The answers to the rows in JSON. Raises ServingError."""
        rows = replies(outputs, cuts, self._count)
        return orjson.dumps(rows if self._is_list else rows[0], option=orjson.OPT_SERIALIZE_NUMPY)


def columns(rows: Sequence[Any], model: ServedModel) -> Columns:
    """The columns of rows, each an object with a value for each input. Raises RequestError."""
    names = [spec.name for spec in model.requests]
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RequestError(f"row {number} is {str(row)[:40]!r}, which is no object: send {_form(model)}")
        if absent := [name for name in names if name not in row]:
            raise RequestError(f"row {number} has no {absent[0]!r}: send {_form(model)}")
        if unknown := [name for name in row if name not in names]:
            raise RequestError(f"row {number} has {unknown[0][:40]!r}, which is no input: send {_form(model)}")
    tensors = []
    for spec in model.requests:
        values = [row[spec.name] for row in rows]
        shape = [len(values), *(_sizes(values[0]) if values and spec.dtype not in ("str", "bytes") else [])]
        item = {"name": spec.name, "datatype": DATATYPES[spec.dtype], "shape": shape, "data": values}
        tensors.append(protocol.JsonTensor(item, spec.dtype == "bytes", spec.name in model.missing))
    return model.check(tensors)


def replies(outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]], count: int) -> list[dict[str, Any]]:
    """For each row its label and answer as far as the model has them, else all outputs; and which texts were cut. Raises ServingError."""
    short = {name: values for name, values in outputs.items() if name in (LABEL, answers.NAME)}
    if short:
        rows = [{name: _of_row(name, values[row]) for name, values in short.items()} for row in range(count)]
    else:
        arrays = {name: _sendable(name, array, count) for name, array in outputs.items()}
        rows = [{name: array[row] for name, array in arrays.items()} for row in range(count)]
    for cut in cuts:
        rows[cut["row"]].setdefault(TRUNCATED, {})[cut["input"]] = {"length": cut["length"], "kept": cut["kept"]}
    return rows


def _of_row(name: str, text: str) -> Any:
    """A label as it is, and the answer that is JSON as what it says."""
    return orjson.loads(text) if name == answers.NAME else text


def _sendable(name: str, array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    if not array.ndim or len(array) != rows:
        raise ServingError(Kind.UNSENDABLE, f"output {name!r} has not one entry a row: send the request to /v2/models/NAME/infer")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ServingError(Kind.UNSENDABLE, f"output {name!r} holds NaN or infinity, which JSON cannot represent: send other values")
    return np.ascontiguousarray(array.astype(np.float32) if array.dtype == np.float16 else array)


def _parse(body: bytes | bytearray, model: ServedModel) -> Any:
    try:
        rows = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the request is not JSON ({error}): send {_form(model)}") from None
    if rows == []:
        raise RequestError(f"the request has no rows: send {_form(model)}")
    return rows


def _sizes(value: Any) -> list[int]:
    """The sizes of nested lists, as the first values have them."""
    sizes = []
    while isinstance(value, list):
        sizes.append(len(value))
        value = value[0] if value else None
    return sizes


def _form(model: ServedModel) -> str:
    return "{" + ", ".join(f'"{spec.name}": …' for spec in model.requests) + "} or a list of these"
