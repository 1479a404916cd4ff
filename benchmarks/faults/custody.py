"""Faults between the stages: what was trained, measured or built is not what the next stage gets.

`_sealed` also adapts the seal of the changed folder, as one would who knows its format.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults.fault import Fault
from paddleship.custody import seals
from paddleship.lineage import receipts
from paddleship.shipped.computing.files import sha256

Damage = Callable[[Path], None]
_CANDIDATES, _CHECKPOINT, _PREPARED = "models/candidates", "models/checkpoint", "data/prepared"


def edited(path: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Damage:
    """Change a JSON file of a checkout."""

    def damage(checkout: Path) -> None:
        (checkout / path).write_text(json.dumps(change(json.loads((checkout / path).read_text(encoding="utf-8")))), encoding="utf-8")

    return damage


def receipt_edited(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Damage:
    """Change the receipt of `package`, and adapt its own digest."""

    def damage(checkout: Path) -> None:
        path = checkout / "image.json"
        receipts.write(path, change(receipts.read(path)))

    return damage


def sealed(folder: str, damage: Damage | None = None, **changes: Any) -> Damage:
    """The damage of an out, and its seal adapted, with changes of other values of the seal."""

    def both(checkout: Path) -> None:
        if damage is not None:
            damage(checkout)
        values = json.loads((checkout / folder / seals.FILE).read_text(encoding="utf-8"))
        values = {name: value for name, value in values.items() if name != "sha256"}
        seals.Seal(**values | {"files": seals.contents(checkout / folder)} | changes).write(checkout / folder)

    return both


def params_edited(**sections: dict[str, Any]) -> Damage:
    """Change params of a checkout."""

    def damage(checkout: Path) -> None:
        path = checkout / "params.yaml"
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        for section, keys in sections.items():
            values[section] |= keys
        path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    return damage


def _lower_limit(checkout: Path) -> None:
    """Set a stricter limit after the proof, in params and in the proof's seal."""
    params_edited(verify={"noise_limit": 4.0})(checkout)
    path = checkout / "models/parity/seal.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["params"]["verify.noise_limit"] = 4.0
    path.write_text(json.dumps(values), encoding="utf-8")


def _lower_limit_sealed(checkout: Path) -> None:
    _lower_limit(checkout)
    params = json.loads((checkout / "models/parity/seal.json").read_text(encoding="utf-8"))["params"]
    sealed("models/parity", params=params)(checkout)


def _labels(checkout: Path) -> None:
    path = checkout / "examples/reviews/ends.py"
    path.write_text(path.read_text(encoding="utf-8").replace("json.loads, lines", "json.loads, reversed(list(lines))"), encoding="utf-8")


def _compiled(checkout: Path) -> None:
    """Put a compiled module that cannot be imported beside its unchanged source."""
    source = checkout / "examples/reviews/model.py"
    compiled = Path(importlib.util.cache_from_source(source))
    compiled.parent.mkdir(exist_ok=True)
    code = compile("raise SystemExit('the compiled module ran')", str(source), "exec")
    times = struct.pack("<III", 0, int(source.stat().st_mtime), source.stat().st_size)
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + times + marshal.dumps(code))


def compiled_ran(checkout: Path) -> dict[str, str]:
    """After `export`: whether the source was run."""
    made = (checkout / "models/exported/candidate.json").exists()
    return {"export": "the source ran" if made else "nothing was exported"}


def _spoil(checkout: Path) -> None:
    path = checkout / _CANDIDATES / "paddle" / "candidate.json"
    listed = json.loads(path.read_text(encoding="utf-8"))["files"]
    file = path.parent / sorted(listed)[0]
    file.write_bytes(file.read_bytes() + b"0")


def _add_pin(pin: str) -> Damage:
    def damage(checkout: Path) -> None:
        path = checkout / "docker/requirements/onnxruntime.txt"
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(pin.partition("==")[0])]
        path.write_text("\n".join([*kept, pin]) + "\n", encoding="utf-8")

    return damage


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
    assert "softplus" in text, "the model has no softplus"
    path.write_text(text.replace("softplus", "sigmoid"), encoding="utf-8")


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
        damage=receipt_edited(lambda receipt: receipt | {"lineage": receipt["lineage"] | {"noise_ratio": 0.01}}),
    ),
    Fault(
        "another candidate under its own name in a folder", "benchmark", ("changed since optimize",),
        damage=lambda checkout: exchange(checkout, renamed=False),
    ),
    Fault(
        "another candidate under its own name in a folder, and sealed", "verify", ("has name 'paddle'",),
        damage=sealed(_CANDIDATES, lambda checkout: exchange(checkout, renamed=False)),
    ),
    Fault(
        "a noise ratio edited in the receipt without its digest", "accept", ("image.json' was edited",),
        damage=edited("image.json", lambda receipt: receipt | {"lineage": receipt["lineage"] | {"noise_ratio": 0.01}}),
    ),
    Fault("one value edited in the last seal", "benchmark", ("seal.json was edited",), damage=_lower_limit),
    Fault("limits that did not judge, and sealed", "benchmark", ("by limits.json, verify.noise_limit",), damage=_lower_limit_sealed),
    Fault("a seal without inputs", "benchmark", ("names nothing as its inputs",), damage=sealed("models/parity", inputs={})),
    Fault("a seal without versions", "benchmark", ("the version of",), damage=sealed("models/parity", versions={})),
    Fault("a seal of no code", "benchmark", ("the code in code.watch",), damage=sealed("models/parity", code_sha256="")),
    Fault("another reader after prepare", "train", ("prepare ran with",), damage=_labels),
    Fault(
        "a forged compiled module beside the user's code", "export", ("the source ran",), damage=_compiled, named=compiled_ran,
    ),
    Fault(
        "a gate of training raised after the proof", "benchmark", ("train.min_score",), damage=params_edited(train={"min_score": 0.999}),
    ),
    Fault("findings made errors after the proof", "package", ("verify.fail_on",), damage=params_edited(verify={"fail_on": ["disturbed"]})),
    Fault(
        "a library that verify did not load pinned to another version", "package", ("this environment has",),
        damage=_add_pin("flatbuffers==25.9.23"),
    ),
    Fault("a library in the image that is not installed", "package", ("not installed here",), damage=_add_pin("typeguard==4.4.4")),
    Fault("a file of a losing candidate changed after the proof", "benchmark", ("changed", "sha256"), damage=_spoil),
    Fault(
        "a disturbed benchmark called valid, or the reverse, and sealed", "package", ("benchmark_valid",),
        damage=sealed(
            "models/benchmark",
            edited("models/benchmark/choice.json", lambda choice: choice | {"benchmark_valid": not choice["benchmark_valid"]}),
        ),
    ),
    Fault(
        "more threads in a candidate than params allow, and sealed", "verify", ("has 64 threads",),
        damage=sealed(_CANDIDATES, edited(f"{_CANDIDATES}/onnxruntime/candidate.json", lambda values: values | {"threads": 64})),
    ),
    Fault(
        "a module added to the image's libraries, and the receipt adapted", "accept", ("layers",),
        files=(("/opt/paddleship/site/sitecustomize.py", lambda _: "EVIL = True"),), undeclared=True,
    ),
    Fault("an image that runs as root", "accept", ("configuration User",), lines=("USER 0",)),
    Fault("an image with another environment", "accept", ("configuration Env",), lines=("ENV PYTHONPATH=/tmp",)),
    Fault("an image with another entry point", "accept", ("configuration Entrypoint",), lines=('ENTRYPOINT ["python"]',)),
    Fault("an image with another label", "accept", ("configuration Labels",), lines=("LABEL approved=yes",)),
)  # fmt: skip
