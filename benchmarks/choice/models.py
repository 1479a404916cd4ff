"""The models of the bench, with the params that a team would write for each.

The test parts hold at least 190 rows: with fewer, even no flip does not prove a flip rate below 2%.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ROOT, _HERE = Path(__file__).parents[2], "benchmarks.choice"
_WORDS, _CLASSES = 8000, 3
_LABELS = {"task": "classification", "classes": ["first", "second", "third"]}


def _picture(name: str, *, epochs: int, learning_rate: float = 0.001, size: int = 128, rows: int = 320) -> dict[str, Any]:
    inputs = [{"name": "image", "dtype": "float32", "shape": ["batch", 3, size, size]}]
    kwargs = {"rows": rows, "size": size}
    return {
        "data": {"reader": f"{_HERE}.data:pictures", "kwargs": kwargs, "inputs": ["image"], "validation": 0.08, "test": 0.67, **_LABELS},
        "train": {"epochs": epochs, "patience": epochs, "batch_size": 8, "learning_rate": learning_rate},
        "model": {"factory": f"{_HERE}.networks:picture", "kwargs": {"name": name, "classes": _CLASSES}, "inputs": inputs},
    }


def _text(name: str, *, learning_rate: float = 0.002, shortest: int = 64, rows: int = 500, epochs: int = 4) -> dict[str, Any]:
    length = 64 if shortest == 64 else "length"
    inputs = [{"name": "ids", "dtype": "int64", "shape": ["batch", length], "low": 0, "high": _WORDS - 1}]
    kwargs = {"rows": rows, "words": _WORDS, "shortest": shortest, "longest": 64}
    return {
        "data": {"reader": f"{_HERE}.data:words", "kwargs": kwargs, "inputs": ["ids"], "validation": 0.08, "test": 0.45, **_LABELS},
        "train": {"epochs": epochs, "batch_size": 16, "learning_rate": learning_rate},
        "model": {"factory": f"{_HERE}.networks:{name}", "kwargs": {"words": _WORDS, "classes": _CLASSES}, "inputs": inputs},
    }


MODELS: dict[str, dict[str, Any]] = {
    "resnet18": _picture("resnet18", epochs=6),
    "resnet50": _picture("resnet50", epochs=3),
    "mobilenet-v3": _picture("mobilenet_v3_small", epochs=45, learning_rate=0.003),
    "shufflenet": _picture("shufflenet_v2_x1_0", epochs=15),
    "textcnn": _text("TextCNN"),
    "lstm": _text("BiLSTM"),
    "bert-small": _text("Bert", learning_rate=0.0002, shortest=16, rows=700, epochs=5),
    "recommender": {
        "data": {
            "reader": f"{_HERE}.data:visits",
            "kwargs": {"rows": 3000, "items": 5000, "groups": 50, "numbers": 12},
            "inputs": ["history", "group", "numbers"],
            "task": "classification",
            "classes": ["no", "yes"],
        },
        "model": {
            "factory": f"{_HERE}.networks:Recommender",
            "kwargs": {"items": 5000, "groups": 50, "numbers": 12},
            "inputs": [
                {"name": "history", "dtype": "int64", "shape": ["batch", "seen"], "low": 0, "high": 4999},
                {"name": "group", "dtype": "int64", "shape": ["batch"], "low": 0, "high": 49},
                {"name": "numbers", "dtype": "float32", "shape": ["batch", 12]},
            ],
        },
        "train": {"epochs": 4, "batch_size": 64, "learning_rate": 0.002},
    },
    "control-flow": {
        "data": {"reader": f"{_HERE}.data:puzzles", "kwargs": {"rows": 2000, "features": 32}, "inputs": ["x", "rounds"], **_LABELS},
        "model": {
            "factory": f"{_HERE}.networks:Solver",
            "kwargs": {"features": 32, "classes": _CLASSES},
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": ["batch", 32]},
                {"name": "rounds", "dtype": "int64", "shape": ["batch"], "low": 1, "high": 6},
            ],
        },
        "train": {"epochs": 4, "batch_size": 64, "learning_rate": 0.002},
    },
    "detection": {
        "data": {
            "reader": f"{_HERE}.data:boxes",
            "kwargs": {"rows": 900, "size": 96},
            "inputs": ["image"],
            "task": "regression",
            "classes": [],
            "test": 0.25,
        },
        "model": {
            "factory": f"{_HERE}.networks:Detector",
            "kwargs": {},
            "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 3, 96, 96]}],
        },
        "train": {"epochs": 12, "batch_size": 32, "learning_rate": 0.003},
    },
}


def settings(name: str, *, short: bool) -> dict[str, Any]:
    """The params of one model, laid over params.yaml; its stages run in a folder of its own. `short` measures few candidates, briefly."""
    chosen = MODELS[name]
    stages = ("prepared", "checkpoint", "exported", "candidates", "parity", "regression", "benchmark", "reports")
    return {
        **chosen,
        "name": name,
        "code": {"root": str(_ROOT), "watch": str(_ROOT / "benchmarks/choice")},
        "paths": {stage: stage for stage in stages},
        "data": {"fetch": {}, "raw": "seed", **chosen["data"]},
        "preprocess": {"kind": "tensors"},
        "train": {"weight_decay": 0.0, "min_score": None, **chosen["train"]},
        "optimize": {"candidates": ["paddle", "onnxruntime"] if short else None, "threads": 1, "tune_seconds": 0 if short else 2},
        "verify": {"samples": 32 if short else 256, "max_batch": 8},
        "benchmark": {
            **{"batch_sizes": [1], "concurrency": [], "starts": 2, "blocks": 4 if short else 24},
            **{"max_seconds": 10 if short else 40, "scenario_seconds": 0.5 if short else 1},
        },
        "select": {"objective": "p50_ms"},
    }
