"""Paths in the params: what is written stays in the workspace, and what is read from outside is named by its absolute path.

The model's code and the data may be elsewhere, because stages only read them; so may the ledger, which several checkouts may share,
the request samples of servers, and the site-packages of PyTorch. A relative path that leads outside, by `..` or by a link, is refused:
an isolated run has another folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from paddleship.config.params import Params
from paddleship.config.sections.data import ClassFile
from paddleship.config.sections.train import FileSource
from paddleship.errors import ParamsError


def require_inside(params: Params, root: Path) -> None:
    """Raise ParamsError for the first path that leaves the workspace `root` and may not."""
    for key, value in _written(params):
        if Path(value).is_absolute() or Path(value) == Path() or not _is_inside(value, root):
            raise ParamsError(
                f"{key} is {value!r}, which is not below the workspace {str(root)!r}: name a path in there, because a run writes it"
            )
    for key, value in _read(params):
        if not Path(value).is_absolute() and not _is_inside(value, root):
            raise ParamsError(f"{key} is {value!r}, which leads out of the workspace {str(root)!r}: give its absolute path, or move it")
    for key, value in _commanded(params):
        if shlex.quote(value) != value:
            raise ParamsError(f"{key} is {value!r}, which is part of a command: rename it to letters, digits and any of @%+=:,./-_")


def _written(params: Params) -> Iterator[tuple[str, str]]:
    """Keys and values of files and folders that a run writes, and of scripts that it starts."""
    yield from ((f"paths.{name}", str(value)) for name, value in params.paths)
    yield from _commanded(params)
    if params.promote.target is not None:
        yield "promote.target.manifest", params.promote.target.manifest


def _read(params: Params) -> Iterator[tuple[str, str]]:
    yield from (("data.raw", params.data.raw), ("code.root", params.code.root), ("code.watch", params.code.watch))
    yield "promote.ledger", params.promote.ledger
    if isinstance(params.data.classes, ClassFile):
        yield "data.classes.file", params.data.classes.file
    if isinstance(params.train.source, FileSource):
        yield from params.train.source.paths.items()
    if params.drift.sample is not None:
        yield "drift.sample", params.drift.sample
    if params.graph_modes.torch_site is not None:
        yield "graph_modes.torch_site", params.graph_modes.torch_site


def _commanded(params: Params) -> Iterator[tuple[str, str]]:
    """What is in the commands of the stages that fetch data."""
    if params.data.fetch:
        yield "data.raw", params.data.raw
        yield from ((f"data.fetch.{name}", script) for name, script in params.data.fetch.items())


def _is_inside(value: str, root: Path) -> bool:
    """Whether a relative path stays below `root`; the last part may be a link to a file, as DVC makes into its cache."""
    path = root / value
    if ".." in Path(value).parts:
        return False
    folder = path.parent if path.is_symlink() and path.is_file() else path
    return folder.resolve().is_relative_to(root.resolve())
