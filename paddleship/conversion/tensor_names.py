"""The exported program's name of every tensor of the model, recorded at export, so that weights are compared by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paddleship.shipped.computing.files import read_json, write_text

FILE = "parameters.json"


def collect(layer: Any) -> dict[str, str]:
    """The program's name of every tensor of a layer, by its key in the state dict, otherwise by the path of its attribute."""
    names = {
        f"{path}.{name}" if path else name: tensor.name
        for path, part in layer.named_sublayers(include_self=True)
        for name, tensor in _attributes(part)
    }
    return names | {key: tensor.name for key, tensor in layer.state_dict().items()}


def write(folder: Path, names: Mapping[str, str]) -> None:
    """Write the names into `folder`, which holds the program."""
    write_text(folder / FILE, json.dumps(names, indent=0, ensure_ascii=False) + "\n")


def read(folder: Path) -> dict[str, str]:
    """Read the names of the export in `folder`; they are the same in all its programs. Raises BadInput."""
    file = next(iter(sorted(folder.rglob(FILE))), folder / FILE)
    names: dict[str, str] = read_json(file, stage="export")
    return names


def _attributes(part: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in a layer's own attributes, also in lists, tuples and dicts; parameters are in the state dict."""
    import paddle

    for name, value in {**vars(part), **part._buffers}.items():
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        if isinstance(value, paddle.Tensor):
            yield name, value
        elif name not in ("_parameters", "_buffers", "_sub_layers"):
            yield from ((f"{name}.{key}", item) for key, item in items if isinstance(item, paddle.Tensor))
