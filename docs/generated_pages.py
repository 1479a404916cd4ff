"""What the site generates at build time: the reference pages for the params, the preprocess kinds, the commands, the kinds of findings,
and the operators of ONNX.

The last line of such a page says so to readers of the source; it is replaced by the text of its function here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx

REPOSITORY = Path(__file__).parents[1]
MARK = "*`make docs` generates the rest of this page.*"
_PROGRAM = Path(sys.executable).with_name("paddleship")
_COMMAND = re.compile(r"^[ │]{1,6}([a-z][a-z-]*)(?: {2}|[ │]*$)", re.MULTILINE)  # a line of a list of commands, whatever library prints it


def params() -> str:
    """A table for each section of the schema, and for each section within one."""
    from paddleship.config.params import Params

    values = yaml.safe_load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    return "\n\n".join(_sections("", Params, values))


def _sections(path: str, model: type[BaseModel], values: Any) -> Iterator[str]:
    """The table of a section, and then those of the sections in it; keys of the top level that are no sections come first."""
    rows = []
    nested = []
    for name, field in model.model_fields.items():
        forms = _forms(field.annotation)
        value = values.get(name, _ABSENT) if isinstance(values, dict) else _ABSENT
        if forms != [field.annotation] or path:
            rows.append(_row(name, field, value, path))
        for section in forms:
            place = f"{path}.{name}" if path else name
            nested.append((place if len(forms) == 1 else f"{place}, if it has {next(iter(section.model_fields))}", section, value))
    if rows:
        heading = f"## {path}" if path else "## At the top level"
        yield "\n".join([heading, "", "| key | type | default | in `params.yaml` | meaning |", "|---|---|---|---|---|", *rows])
    for place, section, value in nested:
        yield from _sections(place, section, value)


class _Absent:
    """No value: the default of a required field, or the value of a key that params.yaml leaves out."""

    def __str__(self) -> str:
        return "–"


_ABSENT = _Absent()


def _row(name: str, field: FieldInfo, value: Any, path: str) -> str:
    described = [item.description for item in field.metadata if isinstance(item, FieldInfo)]
    meaning = field.description or next(filter(None, described), None)
    if not meaning:
        raise ValueError(f"{path}.{name} has no description: add one to its field")
    default = "required" if field.is_required() else _value(field.get_default(call_default_factory=True))
    cells = [f"`{name}`", _type(field.annotation) + _limits(field.metadata), default, "–" if value is _ABSENT else _value(value), meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _forms(annotation: Any) -> list[type[BaseModel]]:
    """The sections that an annotation holds: itself, or in a list, a dict or an optional value; or several forms of one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _forms(part)]


def _type(annotation: Any) -> str:
    """An annotation in the words of YAML."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        text = " or ".join(f"`{part}`" for part in parts)
    elif origin in (Union, types.UnionType):
        text = " or ".join(dict.fromkeys(_type(part) for part in parts))
    elif origin in (list, Sequence):
        text = f"list of {_type(parts[0])}"
    elif origin in (dict, Mapping):
        text = f"map of {_type(parts[0])} to {_type(parts[1])}"
    elif parts:  # Annotated
        text = _type(parts[0]) + _limits(parts[1:])
    else:
        text = "section" if _forms(annotation) else _TYPES[annotation]
    return text


def _limits(metadata: Iterable[Any]) -> str:
    """The limits of a number: ` > 0`."""
    flat = [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
    limits = [f" {sign} {getattr(part, name):g}" for part in flat for name, sign in _SIGNS.items() if getattr(part, name, None) is not None]
    return " and".join(limits)


_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
_TYPES = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", type(None): "`null`", Any: "any value"}


def _value(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True).removesuffix("\n...\n").strip()
    return f"`{text}`" if len(text) < 60 else "see the file"


def commands() -> str:
    """What `--help` prints, for each command."""
    first = _help()
    names = [(name,) for name in _COMMAND.findall(first)]
    with ThreadPoolExecutor() as pool:
        texts = dict(zip(names, pool.map(lambda name: _help(*name), names), strict=True))
        nested = [(*name, part) for name, text in texts.items() for part in _COMMAND.findall(text)]
        texts |= dict(zip(nested, pool.map(lambda name: _help(*name), nested), strict=True))
    parts = [f"```text\n{first}```"]
    parts += [f"## {' '.join(name)}\n\n```text\n{texts[name]}```" for name in sorted(texts)]
    return "\n\n".join(parts)


def _help(*command: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run([_PROGRAM, *command, "--help"], env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ValueError(f"`paddleship {' '.join(command)} --help` exits with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def findings() -> str:
    """A table of the kinds."""
    from paddleship.reports.finding import KINDS

    return "\n".join(["| kind | meaning |", "|---|---|", *(f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items())])


def preprocess_kinds() -> str:
    """A table of the params of each kind."""
    from paddleship.shipped.computing.preprocess import registry

    tables = []
    for name, found in registry.ours().items():
        hints = get_type_hints(found.registration.encoder, include_extras=True)
        rows = [_param(one, hints[one.name]) for one in found.registration.params]
        if rows:
            tables.append("\n".join([f"### {name}", "", "| param | type | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(tables)


def _param(one: Field[Any], annotation: Any) -> str:
    least = one.metadata["at_least"]
    default = "required" if one.default is MISSING else _value(one.default)
    cells = [f"`{one.name}`", _type(annotation) + (f" ≥ {least:g}" if least is not None else ""), default, one.metadata["description"]]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def onnx_operators() -> str:
    """The operators of ONNX that have a writer, in one paragraph."""
    from paddleship.model.exported_file.onnx_file import operators

    return ", ".join(f"`{name}`" for name in sorted(operators.writers())) + "."


GENERATED: dict[str, Callable[[], str]] = {
    "reference/params": params,
    "reference/preprocess-kinds": preprocess_kinds,
    "reference/commands": commands,
    "reference/findings": findings,
    "reference/onnx-operators": onnx_operators,
}


def _fill(_app: Sphinx, page: str, source: list[str]) -> None:
    if page in GENERATED:
        if MARK not in source[0]:
            raise ValueError(f"docs/{page}.md has no line {MARK!r}, which its generated text replaces")
        source[0] = source[0].replace(MARK, GENERATED[page]())


def _always_outdated(_app: Sphinx, env: Any, *_changes: Any) -> list[str]:
    """A generated page is read in every build, because its file does not change with the code that it describes."""
    return [page for page in GENERATED if page in env.found_docs]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _fill)
    app.connect("env-get-outdated", _always_outdated)
    return {"parallel_read_safe": True}
