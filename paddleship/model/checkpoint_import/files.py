"""The forms in which weights come: a `.pdparams`, a `.safetensors`, or a folder that `train` wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.checkpoint_import import pickled
from paddleship.model.checkpoint_import.matching import of_bfloat16
from paddleship.shipped.computing.files import sha256

_LONGEST = 200  # characters of a reason
_DTYPES = {f"{kind}{bits}": f"{kind.lower()}{bits // 8}" for kind in "FIU" for bits in (8, 16, 32, 64)} | {"BOOL": "?", "BF16": "u2"}
_PYTORCH = "was written by PyTorch, whose Linear layers keep their weights transposed: convert it to Paddle's state_dict first"


def digest(path: Path, root: Path = Path()) -> str:
    """The SHA-256 of the file, or of the files in the folder; a relative path is below `root`. Raises ModelError if there is none."""
    there = root / path
    try:
        if there.is_dir():
            return hashlib.sha256((sha256(there / building.WEIGHTS) + sha256(there / building.FACTS)).encode()).hexdigest()
        return sha256(there)
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        what = f"{Path(error.filename).name!r} in it" if there.is_dir() else "it"
        advice = "correct the path, or give an absolute one: an isolated run has only what git keeps"
        raise ModelError(f"train.source.checkpoint is {str(path)!r}, but {what} {reason}: {advice}") from None


def read(path: Path) -> Any:
    """The arrays by name, with whatever else the file holds; bfloat16 of Paddle's files is an array of uint16. Raises ModelError."""
    try:
        return _read(path)
    except (OSError, ValueError, AttributeError) as error:
        reason = "it does not exist" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())[:_LONGEST]
        raise ModelError(f"the checkpoint {str(path)!r} cannot be read ({reason}): correct the path, or copy it again") from None


def framework(path: Path) -> str:
    """The framework that a safetensors file names as its writer; empty if it names none."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        metadata = json.loads(file.read(length)).get("__metadata__") or {}
    return str(metadata.get("format", ""))


def _read(path: Path) -> Any:
    if path.is_dir():
        if json.loads((path / building.FACTS).read_text(encoding="utf-8")).get("weights_sha256") != sha256(path / building.WEIGHTS):
            reason = f"{building.WEIGHTS} has another hash than {building.FACTS} names"
            raise ModelError(f"{str(path)!r} changed since it was written: {reason}; copy both again")
        return _safetensors(path / building.WEIGHTS)
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if path.suffix in (".pdparams", ".pdopt", ".pdckpt"):
        return pickled.read(path)
    raise ModelError(f"the checkpoint is {str(path)!r}: name a .pdparams, a .safetensors, or a folder that `train` wrote")


def _safetensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ModelError(f"{str(path)!r} is no file of safetensors, or it is incomplete ({error}): copy it again") from None
    if framework(path) == "pt":
        raise ModelError(f"{str(path)!r} {_PYTORCH}")
    return {name: _numbers(path, name, kept) for name, kept in tensors}


def _numbers(path: Path, name: str, kept: Any) -> np.ndarray[Any, Any]:
    if kept["dtype"] not in _DTYPES:
        raise ModelError(f"{str(path)!r} holds {name!r} as {kept['dtype']}, and float, integer and bool weights are read: save those")
    numbers = np.frombuffer(kept["data"], _DTYPES[kept["dtype"]]).reshape(kept["shape"])
    if kept["dtype"] == "BF16":
        return of_bfloat16(numbers)
    return numbers.astype(np.uint32) if kept["dtype"] == "U16" else numbers  # uint16 means bfloat16 in Paddle's files
