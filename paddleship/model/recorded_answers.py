"""The answers of a model whose rows have no labels, kept with its checkpoint: there is no score by which it could be known again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import BadInput

_FILE = "answers.npz"
_ROWS = 64  # of each part, which are enough to know a model again
_SAME = 1e-3  # of the largest value of a row: another process or device rounds differently


def write(outputs: Mapping[str, np.ndarray[Any, Any]], folder: Path) -> None:
    """Keep the first output for the first rows of each part."""
    np.savez(folder / _FILE, **{split: array[:_ROWS] for split, array in outputs.items()})  # type: ignore[arg-type]  # numpy's stub


def read(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The first output for the first rows, by name of the part. Raises BadInput."""
    try:
        with np.load(folder / _FILE, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder / _FILE} cannot be read ({error}): run `paddleship run --again train`") from None


def differing(recorded: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> int:
    """The number of recorded rows that are answered differently now."""
    now = now[: len(recorded)]
    if now.shape != recorded.shape:
        return len(recorded)
    before, after = (array.reshape(len(recorded), -1).astype(np.float64) for array in (recorded, now))
    limit = _SAME * np.abs(before).max(1, initial=0)
    return int((~(np.abs(after - before).max(1, initial=0) <= limit)).sum())
