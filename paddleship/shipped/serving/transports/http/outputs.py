"""The outputs that a request asks for, and the answer that holds them: JSON, or JSON with the bytes of tensors behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from paddleship.errors import RequestError
from paddleship.shipped.serving import binary
from paddleship.shipped.serving.columns import RAW_TENSORS
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http import protocol


class Wanted(NamedTuple):
    """The names of the outputs, empty for all, and which are to be binary: `all_binary` unless `binary` says otherwise of a name."""

    names: Sequence[str] = ()
    binary: Mapping[str, bool] = {}
    all_binary: bool = False

    def is_binary(self, name: str) -> bool:
        return self.binary.get(name, self.all_binary)


class Answer(NamedTuple):
    """The body of an answer. `json_bytes` is the length of the JSON that tensors follow; None if there is only JSON."""

    content: bytes
    json_bytes: int | None = None


def wanted(request: Mapping[str, Any], known: Sequence[str]) -> Wanted:
    """What a request asks for, of the outputs `known`. Raises RequestError."""
    all_binary = _flag(request, "binary_data_output", "the request") or False
    asked = request.get("outputs")
    if asked is None or asked == []:
        return Wanted(all_binary=all_binary)
    if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
        raise RequestError("'outputs' must be a list of {\"name\": …}: leave it out for all outputs")
    for item in asked:
        if item.get("name") not in known:
            raise RequestError(f"there is no output {item.get('name')!r}: this model gives {', '.join(known)}")
    flags = {item["name"]: _flag(item, "binary_data", f"output {item['name']!r}") for item in asked}
    return Wanted([item["name"] for item in asked], {name: flag for name, flag in flags.items() if flag is not None}, all_binary)


def wants_raw_tensors(request: Mapping[str, Any]) -> bool:
    """Whether a request switches preprocessing off. Raises RequestError."""
    return _flag(request, RAW_TENSORS, "the request") or False


def _flag(item: Mapping[str, Any], name: str, what: str) -> bool | None:
    """A parameter that is true or false; None if it is absent. Raises RequestError."""
    if (parameters := item.get("parameters")) is None:
        return None
    if not isinstance(parameters, dict):
        raise RequestError(f"'parameters' of {what} must be an object (got {type(parameters).__name__}): leave them out, or send one")
    flag = parameters.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise RequestError(f"the parameter {name!r} of {what} must be true or false (got {str(flag)[:40]!r}): leave it out, or send one")
    return flag


def encode(head: Mapping[str, Any], outputs: Mapping[str, Any], asked: Wanted) -> Answer:
    """The answer that begins with the fields of `head`. Raises ServingError (UNSENDABLE)."""
    items, parts = list[dict[str, Any]](), list[bytes | memoryview]()
    for name in asked.names or outputs:
        if name not in outputs:
            raise ServingError(Kind.UNSENDABLE, f"output {name!r} cannot be made of outputs that hold NaN or infinity: send other values")
        if not asked.is_binary(name):
            items.append(protocol.encode_tensor(name, outputs[name]))
            continue
        parts.append(binary.encode(outputs[name]))
        items.append(protocol.describe_binary(name, outputs[name], len(parts[-1])))
    content = orjson.dumps({**head, "outputs": items}, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in content:  # which orjson writes for NaN and infinity, and a text may hold
        for name in asked.names or outputs:
            if not asked.is_binary(name):
                _require_finite(name, outputs[name])
    return Answer(b"".join([content, *parts]), len(content)) if parts else Answer(content)


def _require_finite(name: str, array: Any) -> None:
    if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ServingError(
            Kind.UNSENDABLE,
            f"output {name!r} holds NaN or infinity, which JSON cannot represent: send other values, or ask for binary data",
        )
