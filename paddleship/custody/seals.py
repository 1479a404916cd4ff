"""A seal: a file in a stage's out folder that records what the out was made from, and the hash of each of its files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput
from paddleship.shipped.computing import candidate
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json, sha256, write_text

FILE = "seal.json"
_OWN = "sha256"  # key of the digest of the other values
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Seal:
    """The content of `seal.json`.

    `inputs` has the digest of the seal of each stage whose out was read, by stage; with them, a digest covers everything back to the data.
    `params` are the values by dotted key that the out depends on, `code_sha256` is the hash of the user's code, `versions` are those of
    the installed libraries where they matter. `files` maps each file of the out to its hash. The file has the digest of its own content
    too, so that an edited value is noticed.
    """

    stage: str
    inputs: dict[str, str]
    params: dict[str, Any]
    code_sha256: str
    versions: dict[str, str]
    files: dict[str, str]
    schema_version: int = SCHEMA_VERSION

    @property
    def digest(self) -> str:
        """Hash of the content."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write `seal.json` into the folder of the out."""
        values = asdict(self) | {_OWN: self.digest}
        write_text(folder / FILE, json.dumps(values, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def read(folder: Path, stage: str) -> Seal:
    """The seal of a stage's out. Raises BadInput if there is none, or if a file of the out was changed, removed or added since."""
    again = f"run `paddleship run --again {stage}`"
    values = read_json(folder / FILE, stage=stage)
    try:
        seal = Seal(**{name: value for name, value in values.items() if name != _OWN})
    except (AttributeError, TypeError) as error:
        raise BadInput(f"{folder / FILE} is no seal ({error}): {again}") from None
    if (seal.schema_version, seal.stage) != (SCHEMA_VERSION, stage):
        actual = f"schema version {seal.schema_version!r} and stage {seal.stage!r}"
        raise BadInput(f"{folder / FILE} has {actual}, this paddleship reads version {SCHEMA_VERSION} of {stage!r}: {again}")
    if values.get(_OWN) != seal.digest:
        raise BadInput(f"{folder / FILE} was edited: its content has another digest than {stage} wrote; {again}")
    now = contents(folder)
    for name in sorted(seal.files.keys() | now.keys()):
        if now.get(name) != seal.files.get(name):
            change = "is missing" if name not in now else "was added" if name not in seal.files else "changed"
            raise BadInput(f"{folder / name} {change} since {stage} wrote this folder: {again}")
    return seal


def revoke(folder: Path) -> None:
    """Remove the seal of an out that its stage wrote and then refused."""
    (folder / FILE).unlink(missing_ok=True)


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file of an out, by path. Files that a candidate lists with their hashes are covered by its `candidate.json`."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / FILE]
    listed = {path.parent / name for path in paths if path.name == candidate.FILE for name in _listed(path)}
    return {path.relative_to(folder).as_posix(): sha256(path) for path in paths if path not in listed}


def _listed(path: Path) -> list[str]:
    return list(Candidate.read(path.parent).files)
