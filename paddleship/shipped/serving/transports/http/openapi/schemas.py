"""JSON Schemas of what a model takes and gives, a row at a time and as tensors of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.shipped.serving import datatypes
from paddleship.shipped.serving.columns import RAW_TENSORS
from paddleship.shipped.serving.datatypes import DATATYPES
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http.rows import LABEL, TRUNCATED

Schema = dict[str, Any]
_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}  # by the kind of a dtype of numpy


def row(model: ServedModel) -> Schema:
    """One row of a request: a value for each input."""
    dimensions = {rule.name: rule for rule in model.candidate.dimensions}
    return _object({spec.name: _of_row(spec, dimensions, nulls=spec.name in model.missing) for spec in model.requests})


def reply(model: ServedModel) -> Schema:
    """The answer to one row."""
    short: Schema = {}
    names = [spec.name for spec in model.outputs]
    if LABEL in names:
        short[LABEL] = _label(model)
    if answers.NAME in names:
        short[answers.NAME] = {"description": "What params.answer asks for."}
    values = short or {spec.name: _of_row(spec, {}) for spec in model.outputs}
    cut = _object({"length": {"type": "integer"}, "kept": {"type": "integer"}})
    truncated = {TRUNCATED: {"type": "object", "additionalProperties": cut, "description": "Texts of which only the beginning was read."}}
    return {"type": "object", "properties": values | truncated, "required": [*values]}


def request(model: ServedModel) -> Schema:
    """A request of the Open Inference Protocol."""
    raw = {RAW_TENSORS: {"type": "boolean", "const": False}} if model.raw_inputs else {}
    return _request(model.requests, model.outputs, raw)


def raw_request(model: ServedModel) -> Schema:
    """The same with the inputs of the model, without preprocessing."""
    found = _request(model.raw_inputs, model.candidate.outputs, {RAW_TENSORS: {"type": "boolean", "const": True}})
    found["properties"]["parameters"]["required"] = [RAW_TENSORS]
    return found | {"required": ["inputs", "parameters"]}


def _request(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], parameters: Schema) -> Schema:
    timeout = {"type": "integer", "minimum": 0, "description": "Microseconds until nobody wants the answer; 0: no limit."}
    names = [spec.name for spec in outputs]
    return {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "parameters": {"type": "object", "properties": {"timeout": timeout, **parameters}},
            "inputs": _list([_tensor(spec) for spec in inputs], least=len(inputs)),
            "outputs": {"type": "array", "items": _object({"name": {"type": "string", "enum": names}})},
        },
    }


def response(model: ServedModel) -> Schema:
    """An answer of the Open Inference Protocol."""
    return {
        "type": "object",
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "id": {"type": "string"},
            "model_name": {"type": "string", "const": model.candidate.model},
            "model_version": {"type": "string", "const": model.version},
            "parameters": {"type": "object"},
            "outputs": _list([_tensor(spec) for spec in model.outputs], least=0),
        },
    }


def _of_row(spec: TensorSpec, dimensions: dict[str, Dimension], *, nulls: bool = False) -> Schema:
    """The value of an input or output in one row; with `nulls`, a number may be null."""
    schema = _value(spec)
    if nulls:
        schema["type"] = [schema["type"], "null"]
    for size in reversed(spec.shape[1:]):
        schema = {"type": "array", "items": schema, **_items(size, dimensions)}
    return schema


def _value(spec: TensorSpec) -> Schema:
    if spec.dtype == "str":
        return {"type": "string", "minLength": 1}
    if spec.dtype == "bytes":
        return {"type": "string", "contentEncoding": "base64", "minLength": 4}
    limits = {"minimum": spec.low, "maximum": spec.high}  # text names a size of the same row
    return {"type": _TYPES[spec.numpy_dtype.kind], **{key: limit for key, limit in limits.items() if isinstance(limit, int | float)}}


def _items(size: int | str, dimensions: dict[str, Dimension]) -> Schema:
    if isinstance(size, int):
        return {"minItems": size, "maxItems": size}
    rule = dimensions.get(size, Dimension(size))
    return {"minItems": rule.low, **({"maxItems": rule.high} if rule.high is not None else {})}


def _tensor(spec: TensorSpec) -> Schema:
    sizes, count = datatypes.shape(spec), len(spec.shape)
    shape = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": count, "maxItems": count}
    shape["description"] = f"{sizes}, where -1 is any size."
    data = {
        "type": "array",
        "items": _value(spec) if spec.dtype in ("str", "bytes") else {},
        "description": "Row after row, flat or nested.",
    }
    name, datatype = {"type": "string", "const": spec.name}, {"type": "string", "const": DATATYPES[spec.dtype]}
    return _object({"name": name, "datatype": datatype, "shape": shape, "data": data})


def _label(model: ServedModel) -> Schema:
    return {
        "type": "string",
        "description": "The decision, as the output `label` of the protocol has it.",
        "examples": [*model.candidate.labels][:5],
    }


def _list(kinds: Sequence[Schema], *, least: int) -> Schema:
    items = kinds[0] if len(kinds) == 1 else {"oneOf": [*kinds]}
    return {"type": "array", "items": items, "minItems": least, "maxItems": len(kinds)}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
