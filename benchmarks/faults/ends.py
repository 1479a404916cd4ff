"""Faults at the ends of the pipeline: between a client's raw text and its label, and between the proof and the image.

A small text classifier goes through all stages in a checkout of its own. Each fault is put into a copy of the results, and the stage
that must refuse it runs. The copy without a fault must be accepted.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.faults import custody
from benchmarks.faults.cost import copy
from benchmarks.faults.custody import edited, exchange, sealed
from benchmarks.faults.fault import Fault
from paddleship.containers import image

REPOSITORY = f"paddleship/test-ends-{os.getpid()}"
STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark", "package")
_APP, _MODEL = "/opt/paddleship/app/paddleship", "/opt/paddleship/model"
_READER = """
import json

def read(raw):
    with raw.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
"""


@dataclass(frozen=True)
class Found:
    """The result for one fault: exit code, failed checks or message, and whether it is the right cause."""

    name: str
    code: int
    said: str
    right: bool


def _replace(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, f"{old!r} is not in the file that the fault is put into"
        return text.replace(old, new)

    return change


_CANDIDATE = "models/candidates/onnxruntime/candidate.json"
_COMMON = f"{_APP}/shipped/computing"
_RUNTIME = f"{_APP}/shipped/computing/runtimes/onnx_runtime.py"
_ANSWER = "return named_outputs("
_ANSWERS = ("noise_ratio", "typical_ratio", "http_threads_ratio", "labels", "unanswered_batches")


def _answers_wrong_where(condition: str) -> tuple[tuple[str, Callable[[str], str]], ...]:
    """The image's runtime with its first output negated if `condition` holds for `inputs`."""
    helper = (
        "\n\ndef _spoiled(named, inputs):\n    first = next(iter(inputs.values()))\n"
        f"    return {{name: -array for name, array in named.items()}} if {condition} else named\n"
    )
    return (
        (
            _RUNTIME,
            lambda text: _replace(_ANSWER, "return _spoiled(named_outputs(")(text).replace("inputs)\n", "inputs), inputs)\n") + helper,
        ),
    )


FAULTS = (
    Fault(
        "the server does not normalise text", "accept", _ANSWERS,
        files=((f"{_COMMON}/preprocess/text.py", _replace("unicodedata.normalize(unicode_form, text) if unicode_form else text", "text")),),
    ),
    Fault(
        "the server names the classes in another order", "accept", ("label",),
        files=((f"{_MODEL}/candidate.json", _replace('"classes": [\n  "bad",\n  "good"\n ]', '"classes": ["good", "bad"]')),),
    ),
    Fault("wrong in batches of 5 in the image", "accept", _ANSWERS, files=_answers_wrong_where("len(first) == 5")),
    Fault("wrong for the longest row in the image", "accept", _ANSWERS, files=_answers_wrong_where("first.shape[1] >= 32")),
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
        files=(("/tmp/note", lambda _: "another build"),),  # noqa: S108 a file of the image
        damage=edited("image.json", lambda values: values | {"labels": values["labels"] | {"org.opencontainers.image.created": "earlier"}}),
    ),
    *custody.FAULTS,
)  # fmt: skip


def measure(work: Path, *, short: bool) -> list[Found]:
    """Try all faults, or every fifth one, and the copy without a fault, which must be accepted."""
    checkout = _pipeline(work / "pipeline")
    faults = FAULTS[::5] if short else FAULTS
    with closing(image.connect()) as client, _tidied(client):
        receipt = json.loads((checkout / "image.json").read_text(encoding="utf-8"))
        client.images.get(receipt["image_id"]).tag(REPOSITORY, "kept")  # accept removes images that it refuses
        found = [_ask(client, Fault("honest", "accept", ()), checkout, work / "honest")]
        for place, fault in enumerate(faults):
            found.append(_ask(client, fault, checkout, work / f"fault-{place}"))
            print(f"{fault.name}: {'refused' if found[-1].code else 'ACCEPTED'} by {fault.stage}", flush=True)
    return found


def table(found: list[Found]) -> str:
    """Counts, and one line for each fault that was accepted or refused for another reason."""
    faults = [one for one in found if one.name != "honest"]
    lines = [f"{'faults at the ends':40} {len(faults):7} {'':28}  {sum(one.code != 0 and one.right for one in faults)}/{len(faults)}"]
    lines += [f"missed at the ends: {one.name}" for one in faults if not one.code]
    lines += [f"refused for another reason: {one.name}: {one.said}" for one in faults if one.code and not one.right]
    lines += [f"false alarm at the ends: {one.said}" for one in found if one.name == "honest" and one.code]
    return "\n".join(lines)


def summary(found: list[Found]) -> dict[str, float | int]:
    faults = [one for one in found if one.name != "honest"]
    return {
        "end_faults": len(faults),
        "end_faults_caught_share": sum(one.code != 0 and one.right for one in faults) / len(faults),
        "end_faults_caught_share_goal": 1.0,
        "end_false_alarms": sum(one.code != 0 for one in found if one.name == "honest"),
        "end_false_alarms_goal": 0,
    }


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
    values["verify"] |= {"samples": 48, "max_batch": 8}
    values["benchmark"] |= {"batch_sizes": [1], "concurrency": [], "starts": 1, "blocks": 4, "samples_per_block": 20}
    values["benchmark"] |= {"warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2}
    values["select"] |= {"candidate": "onnxruntime"}
    values["package"] |= {"repository": REPOSITORY}
    values["accept"] |= {"load_requests": 50}
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    for stage in STAGES:
        done = _run(checkout, stage)
        if done.returncode:
            raise RuntimeError(f"{stage} did not pass in the bench of the ends: {done.stderr.strip()[-600:]}")
    return checkout


def _ask(client: Any, fault: Fault, checkout: Path, copied: Path) -> Found:
    subprocess.run(["cp", "-a", str(checkout), str(copied)], check=True)
    if fault.files or fault.lines:
        _derive(client, fault, copied)
    if fault.damage is not None:
        fault.damage(copied)
    for stage in fault.before:
        if (done := _run(copied, stage)).returncode:
            return Found(fault.name, done.returncode, f"{stage}: {done.stderr.strip()[-300:]}", False)
    done = _run(copied, fault.stage)
    said = done.stderr.strip().splitlines()[-1] if done.returncode else ""
    return Found(fault.name, done.returncode, said, any(word in said for word in fault.expects))


def _derive(client: Any, fault: Fault, checkout: Path) -> None:
    """An image based on the packaged one with changed files, and a receipt as if `package` had made it."""
    receipt = json.loads((checkout / "image.json").read_text(encoding="utf-8"))
    context = checkout / "context"
    context.mkdir()
    lines = [f"FROM {receipt['image_id']}", "USER 0"]
    for place, (path, change) in enumerate(fault.files):
        (context / str(place)).write_text(change(_text_of(client, receipt["image_id"], path)), encoding="utf-8")
        lines.append(f"COPY {place} {path}")
        if path.endswith(".py"):  # the image uses its compiled modules
            lines.append(f'RUN ["python", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", "{path}"]')
    (context / "Dockerfile").write_text("\n".join([*lines, "USER 10001:10001", *fault.lines]) + "\n", encoding="utf-8")
    built, _ = client.images.build(path=str(context), rm=True)
    receipt |= {"image_id": built.id, "layers": built.attrs["RootFS"]["Layers"], "contents": image.contents(client, built.id)}
    receipt["unaccepted"] = f"{REPOSITORY}:unaccepted-{built.id.removeprefix('sha256:')[:12]}"
    built.tag(receipt["unaccepted"])
    (checkout / "image.json").write_text(json.dumps(receipt), encoding="utf-8")


def _text_of(client: Any, identity: str, path: str) -> str:
    command = f"import pathlib; p = pathlib.Path({path!r}); print(p.read_text() if p.exists() else '', end='')"
    content: bytes = client.containers.run(identity, ["-c", command], entrypoint="python", remove=True, network_disabled=True)
    return content.decode()


def _run(checkout: Path, stage: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))}
    return subprocess.run(
        [sys.executable, "-m", f"tasks.{stage}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


@contextmanager
def _tidied(client: Any) -> Iterator[None]:
    """Remove the images of this bench, those based on others first."""
    try:
        yield
    finally:
        for found in sorted(client.images.list(name=REPOSITORY), key=lambda one: str(one.attrs["Created"]), reverse=True):
            client.images.remove(found.id, force=True)
