"""The receipt of `package`: which image it built, from what. It has the digest of its own content, so that an edited value is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput
from paddleship.shipped.computing.files import read_json, write_text

_OWN = "sha256"  # key of the digest of the other values


def write(path: Path, receipt: Mapping[str, Any]) -> None:
    write_text(path, json.dumps({**receipt, _OWN: _digest(receipt)}, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Raises BadInput if there is no receipt, or if it was edited."""
    receipt: dict[str, Any] = read_json(path, stage="package")
    if receipt.get(_OWN) != _digest(receipt):
        raise BadInput(f"{str(path)!r} was edited: its content has another digest than package wrote; run `paddleship run --again package`")
    return receipt


def _digest(receipt: Mapping[str, Any]) -> str:
    values = {key: value for key, value in receipt.items() if key != _OWN}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
