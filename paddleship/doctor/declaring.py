"""Parse a model on a command line: `module:factory`, inputs as `NAME:DTYPE[DIM,…]` with an optional `=LOW..HIGH`, and sizes.

A name is that of an argument of forward, or a path into it: `batch.ids`, `states[0]`. `NAME=none` means None. An end of the
range may be a dimension, as in `steps:int64[batch]=1..length`. `length=32..512/32` gives the sizes of a dimension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import ValidationError

from paddleship.config import rules, validation_errors
from paddleship.config.sections.model import Input, Model, Size
from paddleship.errors import ParamsError
from paddleship.shipped.computing.arguments import NAME

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_BOUND = rf"(?:{_NUMBER}|[A-Za-z_]\w*(?:[-+]\d+)?)"
_ABSENT = re.compile(rf"({NAME.pattern})=none")
_INPUT = re.compile(rf"(?P<name>{NAME.pattern}):(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](?:=(?P<low>{_BOUND})\.\.(?P<high>{_BOUND}))?")
_SIZES = re.compile(r"(?P<name>\w+)=(?P<low>\d+)\.\.(?P<high>\d+)?(?:/(?P<multiple_of>\d+))?")
_EXAMPLE = "write it like 'ids:int64[batch,length]=0..4095' or 'image:float32[batch,3,224,224]'"
_SIZES_EXAMPLE = "'length=32..512/32'"


def parse_input(text: str) -> Input:
    """One declared input; a dimension is a number, or the name of a dynamic dimension. Raises ParamsError."""
    match = _INPUT.fullmatch(text.strip())
    if match is None:
        raise ParamsError(f"--input {text!r} does not parse (NAME:DTYPE[DIM,…] with an optional =LOW..HIGH): {_EXAMPLE}")
    low, high = (_limit(match[end]) for end in ("low", "high"))
    if isinstance(low, float) and isinstance(high, float) and low > high:
        raise ParamsError(f"--input {text!r} has an empty range ({low:g} to {high:g}): put the lower end first")
    shape = [_dimension(part.strip(), text) for part in match["shape"].split(",")] if match["shape"].strip() else []
    try:
        return Input.model_validate({"name": match["name"], "dtype": match["dtype"], "shape": shape, "low": low, "high": high})
    except ValidationError as error:
        raise ParamsError(f"--input {text!r}: {_reason(error)}: {_EXAMPLE}") from None


def parse_inputs(texts: Sequence[str]) -> tuple[list[Input], list[str]]:
    """The declared inputs, and the names of arguments that are None. Raises ParamsError."""
    absent = {text: match[1] for text in texts if (match := _ABSENT.fullmatch(text.strip()))}
    return [parse_input(text) for text in texts if text not in absent], list(absent.values())


def parse_sizes(texts: Sequence[str]) -> dict[str, Size]:
    """The sizes that dynamic dimensions may have, by name. Raises ParamsError."""
    sizes = {}
    for text in texts:
        match = _SIZES.fullmatch(text.strip())
        if match is None:
            raise ParamsError(
                f"--dimension {text!r} does not parse (NAME=LOW..HIGH with an optional /MULTIPLE): write it like {_SIZES_EXAMPLE}"
            )
        try:
            sizes[match["name"]] = Size.model_validate({key: match[key] for key in ("low", "high", "multiple_of") if match[key]})
        except ValidationError as error:
            raise ParamsError(f"--dimension {text!r}: {_reason(error)}; write it like {_SIZES_EXAMPLE}") from None
    return sizes


def parse_model(factory: str, inputs: Sequence[str], kwargs: str, dimensions: Sequence[str] = ()) -> Model:
    """The model with its inputs, sizes and factory arguments. Raises ParamsError."""
    if not any(_ABSENT.fullmatch(text.strip()) is None for text in inputs):
        raise ParamsError(f"model {factory!r} has no declared input: give one --input for each argument of forward; {_EXAMPLE}")
    declared, absent = parse_inputs(inputs)
    names = [item.name for item in declared] + absent
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ParamsError(f"--input {twice!r} is declared twice: give each input a name of its own")
    try:
        arguments = json.loads(kwargs)
    except ValueError as error:
        raise ParamsError(f"--kwargs {kwargs!r} is not JSON ({error}): write it like '{{\"width\": 32}}'") from None
    if not isinstance(arguments, dict):
        raise ParamsError(f"--kwargs {kwargs!r} must be an object (got {type(arguments).__name__}): write it like '{{\"width\": 32}}'")
    sizes = parse_sizes(dimensions)
    if wrong := rules.fault([item.spec() for item in declared], [size.rule(name) for name, size in sizes.items()]):
        raise ParamsError(f"--input and --dimension do not fit together: {wrong}")
    try:
        return Model(factory=factory, kwargs=arguments, inputs=declared, absent=absent, dimensions=sizes)
    except ValidationError as error:
        fault = error.errors()[0]
        if fault["loc"] != ("factory",):
            raise ParamsError(f"--input: {_reason(error)}") from None
        raise ParamsError(f"model {factory!r} is no reference: write module:factory, as in 'examples.reviews.model:build'") from None


def _limit(text: str | None) -> float | str | None:
    """A number, or the name of the dimension that is the limit."""
    if not text:
        return None
    return float(text) if re.fullmatch(_NUMBER, text) else text


def _reason(error: ValidationError) -> str:
    return validation_errors.reason(dict(error.errors()[0]))


def _dimension(part: str, text: str) -> int | str:
    if part.isdigit() and int(part) > 0:
        return int(part)
    if part.isidentifier():
        return part
    raise ParamsError(f"--input {text!r} has the dimension {part!r} (not a number from 1, nor a name): {_EXAMPLE}")
