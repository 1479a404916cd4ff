"""The installed versions, the machine and the weights to import, as files that stages depend on."""

from __future__ import annotations

import json
from pathlib import Path

from paddleship.config import catalogue, workspace_paths
from paddleship.config.params import Params
from paddleship.config.sections.train import FileSource
from paddleship.custody import libraries
from paddleship.model import sources
from paddleship.shipped.computing.files import sha256, write_text
from paddleship.system import host


def fingerprint(values: Params, root: Path = Path()) -> None:
    """Write the versions of libraries that compute, the machine (or that any machine is accepted), and the hash of weights to import.

    A file that would not change is not written, so that stages stay up to date. Raises ParamsError for a path that leaves `root`, and for a
    name in optimize.candidates that no runtime registers; ModelError for weights that are not there.
    """
    workspace_paths.require_inside(values, root)
    catalogue.require_known(values.optimize.candidates)
    versions = libraries.versions()
    machine = host.fingerprint() if values.benchmark.host == "here" else {"host": "any"}
    weights = _weights_source(values, root)
    for path, facts in ((values.paths.environment, versions), (values.paths.host, machine), (values.paths.weights_source, weights)):
        _write(root / path, json.dumps(facts, indent=1) + "\n")


def _weights_source(values: Params, root: Path) -> dict[str, str]:
    if _fetched(values):  # not there before the first run, and pinned by the scripts that make it
        return {f"data.fetch.{name}": sha256(root / script) for name, script in values.data.fetch.items()}
    digest = sources.of(values.train).digest(root)
    return {"weights": "trained"} if digest is None else {"sha256": digest}


def _fetched(values: Params) -> bool:
    """Whether the weights to import are in the folder that scripts of data.fetch fill."""
    source = values.train.source
    if not values.data.fetch or not isinstance(source, FileSource):
        return False
    return all(Path(path).is_relative_to(values.data.raw) for path in source.paths.values())


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
