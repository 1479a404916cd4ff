"""Faults at the ends of the pipeline: between a client's raw text and its label, between the stages, and in the model's own answers.

A small text classifier goes through all stages in a checkout of its own. Each fault is put into a copy of the results, and the stage
that must refuse or name it runs. The copy without a fault must be accepted. Faults in a model's code are in `coded`.
`python -m benchmarks.faults.ends` runs this part alone.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults import coded, constant, custody, influences, loosened, not_finite, stages
from benchmarks.faults.cost import copy
from benchmarks.faults.custody import edited, exchange, receipt_edited, sealed
from benchmarks.faults.fault import Fault, Found
from paddleship.containers import image
from paddleship.lineage import receipts

REPOSITORY = f"paddleship/test-ends-{os.getpid()}"
STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark", "package")
APP, _MODEL = "/opt/paddleship/app/paddleship", "/opt/paddleship/model"
_READER = """
import json

def read(raw):
    with raw.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
"""


def _replace(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, f"{old!r} is not in the file that the fault is put into"
        return text.replace(old, new)

    return change


_CANDIDATE = "models/candidates/onnxruntime/candidate.json"
_COMMON = f"{APP}/shipped/computing"
_RUNTIME = f"{APP}/shipped/computing/runtimes/onnx_runtime.py"
_ANSWER = "return named_outputs("
_ANSWERS = ("noise_ratio", "typical_ratio", "http_threads_ratio", "labels", "unanswered_batches")


def _answers_changed_where(condition: str, change: str = "-array") -> tuple[tuple[str, Callable[[str], str]], ...]:
    """The image's runtime with each output `array` changed if `condition` holds for `inputs` with the `first` one."""
    helper = (
        "\n\ndef _spoiled(named, inputs):\n    first = next(iter(inputs.values()))\n"
        f"    return {{name: {change} for name, array in named.items()}} if {condition} else named\n"
    )
    return (
        (
            _RUNTIME,
            lambda text: _replace(_ANSWER, "return _spoiled(named_outputs(")(text).replace("inputs)\n", "inputs), inputs)\n") + helper,
        ),
    )


FAULTS = (
    *loosened.faults(_answers_changed_where("len(first) == 5", "1.001 * array")),
    Fault(
        "the server does not normalise text", "accept", _ANSWERS,
        files=((f"{_COMMON}/preprocess/text.py", _replace("_in_form(text, unicode_form) if unicode_form else text", "text")),),
    ),
    Fault(
        "the server names the classes in another order", "accept", ("label",),
        files=((f"{_MODEL}/candidate.json", _replace('"classes": [\n  "bad",\n  "good"\n ]', '"classes": ["good", "bad"]')),),
    ),
    Fault("wrong in batches of 5 in the image", "accept", _ANSWERS, files=_answers_changed_where("len(first) == 5")),
    Fault("wrong for the longest row in the image", "accept", _ANSWERS, files=_answers_changed_where("first.shape[1] >= 32")),
    Fault(
        "classes reversed in a candidate after optimize", "verify", ("classes",),
        damage=sealed("models/candidates", edited(_CANDIDATE, lambda values: values | {"classes": values["classes"][::-1]})),
    ),
    Fault(
        "precision of a candidate edited after optimize", "verify", ("precision",),
        damage=sealed("models/candidates", edited(_CANDIDATE, lambda values: values | {"precision": "bfloat16"})),
    ),
    Fault("a candidate exchanged after verify", "benchmark", ("changed since optimize",), damage=exchange),
    Fault("a candidate exchanged after benchmark", "package", ("changed since optimize",), damage=exchange),
    Fault("a candidate exchanged after package", "accept", ("changed since optimize",), damage=exchange),
    Fault(
        "the image of another build", "accept", ("label",),
        files=(("/opt/paddleship/note", lambda _: "another build"),),
        damage=receipt_edited(lambda values: values | {"labels": values["labels"] | {"org.opencontainers.image.created": "earlier"}}),
    ),
    *custody.FAULTS,
)  # fmt: skip
MODELS = tuple(model for kind in (constant, not_finite, influences) for model in (*kind.MODELS, *kind.HONEST))


def measure(work: Path, *, short: bool) -> list[Found]:
    """Try all faults and honest models, or every eighth fault and model, and the copy without a fault, which must be accepted."""
    every = 8 if short else 1
    found = coded.measure(MODELS[::every], work)
    checkout = _pipeline(work / "pipeline")
    with closing(image.connect()) as client, _tidied(client):
        receipt = json.loads((checkout / "image.json").read_text(encoding="utf-8"))
        client.images.get(receipt["image_id"]).tag(REPOSITORY, "kept")  # accept removes images that it refuses
        found.append(_honest(client, checkout, work / "honest"))
        for place, fault in enumerate(FAULTS[::every]):
            found.append(_ask(client, fault, checkout, work / f"fault-{place}"))
            print(f"{found[-1]} by {fault.stage}", flush=True)
    return found


def table(found: list[Found]) -> str:
    """Counts, and one line for each fault that was missed or noticed for another reason."""
    faults, honest = [one for one in found if not one.honest], [one for one in found if one.honest]
    lines = [f"{'faults at the ends':40} {len(faults):7} {'':28}  {_caught(faults)}/{len(faults)}"]
    lines += [f"missed at the ends: {one.name}" for one in faults if not one.noticed]
    lines += [f"noticed for another reason: {one.name}: {one.text}" for one in faults if one.noticed and not one.right]
    lines.append(f"{'false alarms at the ends':40} {len(honest):7} {'':28}  {sum(one.noticed for one in honest):>10}")
    lines += [f"false alarm at the ends: {one.name}: {one.text}" for one in honest if one.noticed]
    return "\n".join(lines)


def summary(found: list[Found]) -> dict[str, float | int]:
    faults, honest = [one for one in found if not one.honest], [one for one in found if one.honest]
    return {
        "end_faults": len(faults),
        "end_faults_caught_share": _caught(faults) / len(faults),
        "end_faults_caught_share_goal": 1.0,
        "end_honest": len(honest),
        "end_false_alarms": sum(one.noticed for one in honest),
        "end_false_alarms_goal": 0,
    }


def _caught(faults: list[Found]) -> int:
    return sum(one.noticed and one.right for one in faults)


def _pipeline(checkout: Path) -> Path:
    """A checkout after every stage up to `package`, for a classifier of short texts in many Unicode forms."""
    copy(checkout)
    draw = random.Random(3)  # noqa: S311 no secret
    with (checkout / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for number in range(600):
            label = ("bad", "good")[number % 2]
            words = [
                draw.choice(("ｃafe\u0301", "①", "ﬁne", "ＡＢ", "x") if label == "good" else ("ca", "2", "flat", "yz", "ｘ"))
                for _ in range(6)
            ]
            rows.write(json.dumps({"text": "　".join(words) + f"  {number}", "label": label}, ensure_ascii=False) + "\n")
    (checkout / "examples/reviews/ends.py").write_text(_READER, encoding="utf-8")
    values = yaml.safe_load((checkout / "params.yaml").read_text(encoding="utf-8"))
    kwargs = {"vocabulary_size": 64, "pairs": 997, "width": 8, "classes": 2, "dropout": 0.0}
    values["name"] = "ends"
    values["data"] |= {"fetch": {}, "raw": "rows.jsonl", "reader": "examples.reviews.ends:read", "classes": ["bad", "good"]}
    values["preprocess"] |= {"vocabulary_size": 64, "max_length": 32}
    values["model"] |= {"kwargs": kwargs}
    values["train"] |= {"epochs": 3, "min_score": 0.9, "learning_rate": 0.02}
    values["optimize"] |= {"candidates": ["paddle", "onnxruntime"], "tune_seconds": 0}
    values["verify"] |= {"max_batch": 8}
    values["benchmark"] |= {"batch_sizes": [1], "concurrency": [], "starts": 1, "blocks": 4, "samples_per_block": 20}
    values["benchmark"] |= {"warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2}
    values["select"] |= {"candidate": "onnxruntime"}
    values["package"] |= {"repository": REPOSITORY}
    values["accept"] |= {"load_requests": 50}
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    stages.require(checkout, *STAGES)
    return checkout


def _ask(client: Any, fault: Fault, checkout: Path, copied: Path) -> Found:
    subprocess.run(["cp", "-a", str(checkout), str(copied)], check=True)
    if fault.damage is not None:
        fault.damage(copied)
    for stage in fault.before:
        if (done := stages.run(copied, stage)).returncode:
            return Found(fault.name, True, False, f"{stage}: {done.stderr.strip()[-300:]}")
    if fault.files or fault.lines:
        _derive(client, fault, copied)
    done = stages.run(copied, fault.stage)
    if done.returncode:
        text = done.stderr.strip().splitlines()[-1]
        return Found(fault.name, True, any(word in text for word in fault.expects), text)
    texts = fault.named(copied) if fault.named else {}
    silent = [place for place, text in texts.items() if not all(word in text for word in fault.expects)]
    return Found(fault.name, len(silent) < len(texts), not silent, f"not named in {', '.join(silent)}" if silent else "named")


def _honest(client: Any, checkout: Path, copied: Path) -> Found:
    """The copy without a fault: accepted, and no place names a loosened param."""
    found = _ask(client, Fault("honest", "accept", (loosened.DEFAULT,)), checkout, copied)
    alarms = [] if found.noticed else [text for text in loosened.texts(copied).values() if loosened.DEFAULT in text]
    return replace(found, noticed=found.noticed or bool(alarms), text=found.text + "; ".join(alarms), honest=True)


def _derive(client: Any, fault: Fault, checkout: Path) -> None:
    """An image based on the packaged one with changed files, and a receipt as if `package` had made it."""
    receipt = receipts.read(checkout / "image.json")
    context = checkout / "context"
    context.mkdir()
    lines = [
        "USER 0",
        *(_put(path, change(_text_of(client, receipt["image_id"], path))) for path, change in fault.files),
        "USER 10001:10001",
    ]
    (context / "Dockerfile").write_text("\n".join([f"FROM {receipt['image_id']}", *lines, *fault.lines]) + "\n", encoding="utf-8")
    if not fault.undeclared:
        with (checkout / "docker/serve.Dockerfile").open("a", encoding="utf-8") as dockerfile:
            dockerfile.write("\n".join(lines) + "\n")
    built, _ = client.images.build(path=str(context), rm=True)
    receipt |= {"image_id": built.id, "layers": built.attrs["RootFS"]["Layers"], "size_bytes": int(built.attrs["Size"])}
    receipt["unaccepted"] = f"{REPOSITORY}:unaccepted-{built.id.removeprefix('sha256:')[:12]}"
    built.tag(receipt["unaccepted"])
    receipts.write(checkout / "image.json", receipt)


def _put(path: str, text: str) -> str:
    """The line of a Dockerfile that writes a file, always with the same layer, and its compiled module, which the image uses."""
    content = base64.b64encode(zlib.compress(text.encode())).decode()
    script = f"""
import base64, compileall, os, pathlib, py_compile, zlib
path = pathlib.Path({path!r})
path.write_bytes(zlib.decompress(base64.b64decode({content!r})))
if path.suffix == ".py":
    compileall.compile_file(path, force=True, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
for one in (path, *path.parent.glob("__pycache__/*"), *path.parent.glob("__pycache__"), path.parent):
    os.utime(one, (0, 0))
"""
    return f"RUN {json.dumps(['python', '-c', script])}"


def _text_of(client: Any, identity: str, path: str) -> str:
    command = f"import pathlib; p = pathlib.Path({path!r}); print(p.read_text() if p.exists() else '', end='')"
    content: bytes = client.containers.run(identity, ["-c", command], entrypoint="python", remove=True, network_disabled=True)
    return content.decode()


@contextmanager
def _tidied(client: Any) -> Iterator[None]:
    """Take the tags from the images of this bench, which removes those that no other image is based on."""
    try:
        yield
    finally:
        for found in sorted(client.images.list(name=REPOSITORY), key=lambda one: str(one.attrs["Created"]), reverse=True):
            for tag in found.tags:
                client.images.remove(tag, force=True)


def main() -> None:
    """The long form of this part of the bench alone."""
    with tempfile.TemporaryDirectory() as work:
        found = measure(Path(work), short=False)
    print(table(found))
    figures = summary(found)
    print(json.dumps(figures))
    sys.exit(0 if figures["end_faults_caught_share"] == 1 and figures["end_false_alarms"] == 0 else 3)


if __name__ == "__main__":
    main()
