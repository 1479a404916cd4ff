"""The training profile: how the features of the training rows are distributed, in bins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import DataError
from paddleship.shipped.computing.features import Bins, Features
from paddleship.shipped.computing.files import write_text
from paddleship.shipped.computing.preprocess import Example

FILE = "profile.json"
_BINS = 10  # of a feature with many values, with about as many training rows in each
_MOST_VALUES = 20  # a feature with more has bins
_COMMON = 0.005  # share of training rows from which a value has a bin of its own


def make(features: Features, examples: Sequence[Example], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Bins and counts of every feature of the training rows, encoded and as `columns`. Rows in any order give the same profile."""
    measured = [features.of(example, features.of_values(columns, row)) for row, example in enumerate(examples)]
    table = np.array(measured, np.float64).reshape(len(examples), len(features.names))
    profiles = [_of_feature(name, np.sort(table[:, column])) for column, name in enumerate(features.names)]
    return {"rows": len(examples), "features": profiles, "left_out": list(features.left_out)}


def write(profile: dict[str, Any], folder: Path) -> None:
    write_text(folder / FILE, json.dumps(profile, indent=1, ensure_ascii=False) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """The profile that `prepare` wrote. Raises DataError."""
    try:
        profile: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{folder / FILE} cannot be read ({error.strerror}): run `paddleship run --again prepare`") from None
    return profile


def _of_feature(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _MOST_VALUES:
        common = distinct[counts >= max(1, _COMMON * len(values))]
        bins = Bins(name, values=tuple(float(value) for value in common))
    else:
        cuts = np.unique(np.quantile(values, np.arange(1, _BINS) / _BINS, method="lower"))
        bins = Bins(name, float(values[0]), float(values[-1]), tuple(float(cut) for cut in cuts if cut < values[-1]))
    bin_counts = np.bincount([bins.index(float(value)) for value in values], minlength=len(bins))
    return {**bins.to_dict(), "counts": bin_counts.tolist()}
