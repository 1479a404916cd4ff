"""Faults between the stages: what was trained, measured or built is not what the next stage gets.

`_sealed` also adapts the seal of the changed folder, as one would who knows its format.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults.fault import Fault
from paddleship.custody import seals
from paddleship.shipped.computing.files import sha256

Damage = Callable[[Path], None]
_CANDIDATES, _CHECKPOINT, _PREPARED = "models/candidates", "models/checkpoint", "data/prepared"


def edited(path: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Damage:
    """Change a JSON file of a checkout."""

    def damage(checkout: Path) -> None:
        (checkout / path).write_text(json.dumps(change(json.loads((checkout / path).read_text(encoding="utf-8")))), encoding="utf-8")

    return damage


def sealed(folder: str, damage: Damage) -> Damage:
    """The damage of an out, and its seal adapted."""

    def both(checkout: Path) -> None:
        damage(checkout)
        values = json.loads((checkout / folder / seals.FILE).read_text(encoding="utf-8"))
        seals.Seal(**values | {"files": seals.contents(checkout / folder)}).write(checkout / folder)

    return both


def exchange(checkout: Path, *, renamed: bool = True) -> None:
    """Replace the candidate of ONNX Runtime by Paddle's program, renamed or under its own name."""
    folder, other = checkout / _CANDIDATES / "onnxruntime", checkout / _CANDIDATES / "paddle"
    for path in folder.iterdir():
        path.unlink()
    for path in other.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if renamed:
        edited(f"{_CANDIDATES}/onnxruntime/candidate.json", lambda values: values | {"name": "onnxruntime"})(checkout)


def _activation(checkout: Path) -> None:
    path = checkout / "examples/reviews/model.py"
    text = path.read_text(encoding="utf-8")
    assert "relu" in text, "the model has no relu"
    path.write_text(text.replace("relu", "gelu"), encoding="utf-8")


def _classes(checkout: Path) -> None:
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values["data"]["classes"] = values["data"]["classes"][::-1]
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def _vocabulary(schema: dict[str, Any]) -> dict[str, Any]:
    words = schema["preprocess"]["vocabulary"]
    return schema | {"preprocess": schema["preprocess"] | {"vocabulary": words[:5] + words[:4:-1]}}


def _rotate(checkout: Path) -> None:
    """Exchange the columns of the head, and adapt the hash of the weights."""
    from safetensors.numpy import load_file, save_file

    path = checkout / _CHECKPOINT / "weights.safetensors"
    weights = load_file(path)
    save_file({name: array[..., ::-1].copy() if array.shape[-1:] == (2,) else array for name, array in weights.items()}, path)
    edited(f"{_CHECKPOINT}/checkpoint.json", lambda facts: facts | {"weights_sha256": sha256(path)})(checkout)


def _pin(checkout: Path) -> None:
    path = checkout / "docker/requirements/onnxruntime.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    changed = ["onnxruntime==1.30.0" if line.startswith("onnxruntime==") else line for line in lines]
    assert changed != lines, "onnxruntime is not pinned"
    path.write_text("\n".join(changed) + "\n", encoding="utf-8")


def _less_noise(proven: dict[str, Any]) -> dict[str, Any]:
    return {name: facts | {"noise_ratio": 0.01} for name, facts in proven.items()}


FAULTS = (
    Fault("another activation in the code after training", "export", ("the code in code.watch",), damage=_activation),
    Fault("the order of classes changed after training", "export", ("data.classes",), damage=_classes),
    Fault(
        "the vocabulary reversed after training", "export", ("schema.json changed since prepare",),
        damage=edited(f"{_PREPARED}/schema.json", _vocabulary),
    ),
    Fault(
        "the vocabulary reversed after training, and sealed", "export", ("was made from another 'data/prepared'",),
        damage=sealed(_PREPARED, edited(f"{_PREPARED}/schema.json", _vocabulary)),
    ),
    Fault("the head's columns rotated in the checkpoint", "verify", ("checkpoint.json changed since train",), damage=_rotate),
    Fault(
        "the head's columns rotated in the checkpoint, and sealed", "verify", ("rescored_",),
        damage=sealed(_CHECKPOINT, _rotate), before=("export", "optimize"),
    ),
    Fault("another version of the runtime in the image", "package", ("verify ran with",), damage=_pin),
    Fault(
        "a noise ratio edited in the proof", "package", ("passed.json changed since verify",),
        damage=edited("models/parity/passed.json", _less_noise),
    ),
    Fault(
        "a noise ratio edited in the proof, and sealed", "package", ("was made from another 'models/parity'",),
        damage=sealed("models/parity", edited("models/parity/passed.json", _less_noise)),
    ),
    Fault(
        "a speedup edited in the choice, and sealed", "package", ("its samples give",),
        damage=sealed("models/benchmark", edited("models/benchmark/choice.json", lambda choice: choice | {"speedup": 99.0})),
    ),
    Fault(
        "a noise ratio edited in the receipt", "accept", ("noise_ratio",),
        damage=edited("image.json", lambda receipt: receipt | {"lineage": receipt["lineage"] | {"noise_ratio": 0.01}}),
    ),
    Fault(
        "another candidate under its own name in a folder", "benchmark", ("changed since optimize",),
        damage=lambda checkout: exchange(checkout, renamed=False),
    ),
    Fault(
        "another candidate under its own name in a folder, and sealed", "verify", ("has name 'paddle'",),
        damage=sealed(_CANDIDATES, lambda checkout: exchange(checkout, renamed=False)),
    ),
    Fault("an image that runs as root", "accept", ("configuration User",), lines=("USER 0",)),
    Fault("an image with another environment", "accept", ("configuration Env",), lines=("ENV PYTHONPATH=/tmp",)),
    Fault("an image with another entry point", "accept", ("configuration Entrypoint",), lines=('ENTRYPOINT ["python"]',)),
    Fault("an image with another label", "accept", ("configuration Labels",), lines=("LABEL approved=yes",)),
)  # fmt: skip
