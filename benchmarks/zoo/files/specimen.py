"""A file, the model and rows that belong to it, and where it must end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PICTURE = {"name": "x", "dtype": "float32", "shape": ["batch", 3, 8, 8]}
NUMBERS = {"name": "extra", "dtype": "float32", "shape": ["batch", 4]}
TEXT = {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]}


@dataclass(frozen=True)
class FileSpecimen:
    """What writes the files into a folder, as `train.source` names them, and the regular expression of the error; empty: an image.

    `factory` is the model's class in `nets`, or empty where the file is the model; `reader` and `inputs` are those of its rows.
    """

    name: str
    write: Callable[[Path], None]
    source: Mapping[str, str]
    because: str
    factory: str = "Net"
    reader: str = "pictures"
    inputs: tuple[Mapping[str, Any], ...] = (PICTURE,)
    refused: str = ""

    @property
    def expected(self) -> str:
        return "one line" if self.refused else "image"

    def params(self, folder: Path, repository: str) -> dict[str, Any]:
        """The values that its owner lays over params.yaml: the way to an image, with little time for each measurement."""
        two = len(self.inputs) > 1
        return {
            "name": self.name,
            "code": {"root": str(folder), "watch": str(folder / "nets.py")},
            "data": {
                **{"fetch": {}, "raw": str(folder / "nets.py"), "reader": f"nets:{self.reader}", "kwargs": {"extra": True} if two else {}},
                **{"inputs": [one["name"] for one in self.inputs], "label": None, "task": "classification", "classes": []},
                **{"validation": 0.2, "test": 0.6},
            },
            "preprocess": {"kind": "tensors"},
            "model": {
                **({"factory": f"nets:{self.factory}"} if self.factory else {}),
                **{"kwargs": {}, "inputs": [dict(one) for one in self.inputs]},
            },
            "train": {
                "source": {key: str(folder / value) if key in ("checkpoint", "exported") else value for key, value in self.source.items()},
                "min_score": None,
            },
            "optimize": {"candidates": ["paddle", "onnxruntime", "openvino"], "tune_seconds": 0},
            "verify": {"samples": 24, "max_batch": 4},
            "benchmark": {
                **{"batch_sizes": [1], "concurrency": [], "starts": 1, "blocks": 4, "samples_per_block": 20, "warmup_s": 0.2},
                **{"scenario_seconds": 0.5, "max_seconds": 10, "max_busy_share": 1.0},
            },
            "package": {"repository": repository},
            "accept": {"load_requests": 20, "max_cold_start_ms": 60000},
        }
