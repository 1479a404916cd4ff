"""Rows of a CSV file: features x0, x1, … and a target y."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read(raw: Path) -> Iterator[dict[str, Any]]:
    with raw.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            y = float(row.pop("y"))
            yield {"x": [float(value) for value in row.values()], "y": [y]}
