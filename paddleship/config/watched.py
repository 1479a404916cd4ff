"""Whether the code that params name is the code whose changes make stages run again."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, cast

from paddleship.config.params import Params
from paddleship.errors import BadInput
from paddleship.shipped.computing.preprocess import registry
from paddleship.shipped.computing.preprocess.registration import Names
from paddleship.system import source_imports


def require(values: Params, *keys: str) -> None:
    """Raise BadInput if code below code.root that one of these keys names, such as model.factory, is not below code.watch.

    Also if code.root, which must be on sys.path, is no folder. Code of installed packages may be anywhere, and a module that is not found
    is left to its import.
    """
    source_imports.compile_anew()
    root, watched = Path(values.code.root).resolve(), Path(values.code.watch).resolve()
    if not root.is_dir():
        raise BadInput(f"code.root {values.code.root!r} is no folder: set it to the folder that holds your code")
    references = dict(pair for one in keys for pair in _references(values, one))
    for key, reference in (references | _of_kinds(values, "code")).items():
        file = _file_of(reference) if reference and ":" in reference else None
        if file is None or not file.is_relative_to(root) or any(part.endswith("-packages") for part in file.parts):
            continue
        if not file.is_relative_to(watched):
            raise BadInput(
                f"{key} {reference!r} is in {str(file)!r}, which is not below code.watch ({values.code.watch!r}): its changes would make "
                "no stage run again; set code.watch to the file or folder of your code"
            )


def _references(values: Params, key: str) -> Iterator[tuple[str, str | None]]:
    """The references that a key names, with their keys: one, or several in a mapping."""
    named: Any = reduce(lambda part, name: getattr(part, name, None), key.split("."), cast(Any, values))
    if isinstance(named, Mapping):
        yield from ((f"{key}.{name}", reference) for name, reference in named.items())
    else:
        yield key, named


def require_files(values: Params) -> None:
    """Raise BadInput if a file that a preprocess kind reads is not below code.watch or data.raw, whose changes make `prepare` run again."""
    below = [Path(folder).resolve() for folder in (values.code.watch, values.data.raw)]
    for key, file in _of_kinds(values, "file").items():
        if not any(Path(file).resolve().is_relative_to(folder) for folder in below):
            raise BadInput(
                f"{key} {file!r} is below neither code.watch ({values.code.watch!r}) nor data.raw ({values.data.raw!r}): its changes would "
                "make no stage run again; copy it into one of them"
            )


def _of_kinds(values: Params, what: Names) -> dict[str, str]:
    """What the params of preprocess kinds name, by key."""
    entries = values.preprocess.written.items()
    every = {f"preprocess.inputs.{name}.{key}": entry[key] for name, entry in entries for key in registry.get(entry["kind"]).naming(what)}
    return {key: value for key, value in every.items() if value}


def _file_of(reference: str) -> Path | None:
    """The file of a module; None if it has none, or its package cannot be imported."""
    sys.dont_write_bytecode = True  # as in shipped/computing/references.py
    try:
        spec = importlib.util.find_spec(reference.partition(":")[0])
    except Exception:  # of the user's package, which its import reports
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None
