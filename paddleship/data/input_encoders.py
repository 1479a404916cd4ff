"""The encoders of the model's inputs: as params declare them, and as a schema stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddleship.config.params import Params
from paddleship.config.sections.code import Code
from paddleship.data import carried_code
from paddleship.errors import DataError
from paddleship.shipped.computing import discovery
from paddleship.shipped.computing.preprocess import CODE, Preprocess, encoder, inputs_of, registry
from paddleship.shipped.computing.preprocess.registration import InputEncoder


def declared(params: Params) -> Preprocess:
    """The encoders before they are fitted. Raises DataError for an input or a column that does not exist."""
    entries, inputs = params.preprocess.entries, {item.name: item.spec() for item in params.model.inputs}
    for name in entries:
        if name not in inputs:
            key = "preprocess.inputs names" if params.preprocess.inputs else "preprocess.input"
            raise DataError(f"{key} {name!r}, which is not one of model.inputs ({', '.join(inputs)}): name the input that it makes")
    encoders = [encoder(spec, _carrying(entries.get(name), params.code)) for name, spec in inputs.items()]
    for one in encoders:
        _require_column(one, params)
    return Preprocess(encoders, params.model.rules)


def fit(preprocess: Preprocess, columns: Mapping[str, Sequence[Any]]) -> Preprocess:
    """The encoders with what they learn from the columns of the training part."""
    return Preprocess([one.fit(columns[one.column]) for one in preprocess.encoders])


def config(params: Params, fitted: Preprocess) -> dict[str, Any]:
    """The encoders as a schema and a candidate store them; in the short form if the params have it."""
    entries = params.preprocess.written
    stored = {one.spec.name: _entry(one, entries[one.spec.name]["kind"]) for one in fitted.encoders if one.spec.name in entries}
    if params.preprocess.inputs:
        return {"inputs": stored}
    if not stored:
        return {"kind": registry.default().name}
    ((name, entry),) = stored.items()
    return {"kind": entry.pop("kind"), "column": entry.pop("column"), "input": name, **entry}


def require_same_code(stored: Mapping[str, Any]) -> None:
    """Raise DataError if the code of a kind from a user's package changed since the data was prepared."""
    for name, entry in inputs_of(stored).items():
        point = registry.registered(entry["kind"]).entry_point if CODE in entry else None
        if point is not None and (digest := discovery.code_sha256(point)) != entry[CODE]:
            raise DataError(
                f"the code of the preprocess kind {entry['kind']!r} of input {name!r} changed since the data was prepared (sha256 "
                f"{digest[:12]}, expected {entry[CODE][:12]}): run `paddleship run --again prepare`"
            )


def require_same_files(preprocess: Preprocess) -> None:
    """Raise DataError if a file that a kind learned from changed since the data was prepared."""
    for one in preprocess.encoders:
        if (file := one.changed_file()) is not None:
            raise DataError(
                f"the file {file!r}, which the input {one.spec.name!r} is made with, changed since the data was prepared: restore it, or "
                "run `paddleship run --again prepare`"
            )


def _carrying(entry: Mapping[str, Any] | None, code: Code) -> Mapping[str, Any] | None:
    """The entry, with the user's code if its kind runs that."""
    if entry is None or not registry.get(entry["kind"]).naming("code"):
        return entry
    return {**entry, "code": carried_code.texts(code)}


def _entry(one: InputEncoder, kind: str) -> dict[str, Any]:
    point = registry.registered(kind).entry_point
    code = {} if point is None else {CODE: discovery.code_sha256(point)}
    return {"kind": kind, "column": one.column, **one.stored(), **code}


def _require_column(one: InputEncoder, params: Params) -> None:
    name, columns = one.spec.name, ", ".join(params.data.inputs)
    if one.column in params.data.inputs:
        return
    if name not in params.preprocess.entries:
        raise DataError(
            f"model.inputs names {name!r}, which is not a column of the data (data.inputs: {columns}): use the same names in both"
        )
    key = f"preprocess.inputs.{name}.column" if params.preprocess.inputs else "preprocess.column"
    raise DataError(f"{key} {one.column!r} is not one of data.inputs ({columns}): name the column that the input is made from")
