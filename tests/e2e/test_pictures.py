"""Pictures without code: the digits example, and a folder of pictures with somebody's .pdparams, to an image that answers a JPEG."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import yaml

from paddleship.config import loading
from paddleship.containers.sandbox import in_sandbox
from paddleship.data import dataset
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.model import ServedModel
from tests.pictures import drawn, encoded

QUICK = {
    "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
    "verify": {"samples": 24, "max_batch": 4},
    "benchmark": {
        "batch_sizes": [1],
        "concurrency": [],
        "starts": 1,
        "blocks": 4,
        "samples_per_block": 10,
        "warmup_s": 0.2,
        "scenario_seconds": 0.5,
        "max_seconds": 20,
    },
}
STAGES = ("fingerprint", "prepare", "train", "export", "optimize", "verify")
IMAGE = ("benchmark", "package", "accept")
REPOSITORY = f"paddleship/test-pictures-{os.getpid()}"
MODEL = """
from paddle.vision.models import resnet18


def build(classes):
    return resnet18(num_classes=classes)
"""
TRAINER = """
import sys
from pathlib import Path

import numpy as np
import paddle
from PIL import Image

paddle.seed(0)
model = paddle.vision.models.resnet18(num_classes=2)
files = sorted(Path(sys.argv[1]).glob("*/*.jpg"))
pictures = [np.asarray(Image.open(file).resize((64, 64)), np.float32).transpose(2, 0, 1) / 255 for file in files[::4]]
labels = [int(file.parent.name == "tilted") for file in files[::4]]
optimizer = paddle.optimizer.Adam(parameters=model.parameters())
for _ in range(3):
    loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(np.stack(pictures))), paddle.to_tensor(labels))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
paddle.save(model.state_dict(), sys.argv[2])
"""


def with_params(checkout, base_params, overlay):
    """A checkout whose params.yaml is its own with this laid over it."""
    base = {key: value for key, value in base_params.items() if key != "preprocess"}
    values = loading.merge(loading.merge(base, overlay), {**QUICK, "package": {"repository": REPOSITORY}})
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return checkout


@pytest.fixture(scope="module")
def digits(checkout_of, base_params, stage):
    """The digits example with fewer rows and epochs, after everything before the benchmark."""
    checkout = checkout_of("digits")
    overlay = yaml.safe_load((checkout / "examples/digits/params.yaml").read_text(encoding="utf-8"))
    with_params(checkout, base_params, loading.merge(overlay, {"train": {"epochs": 4, "min_score": 0.85}}))
    command = [sys.executable, "examples/digits/fetch.py", "data/raw/digits"]
    subprocess.run(command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True)
    for number, path in enumerate(sorted((checkout / "data/raw/digits").glob("*/*.png"))):
        if number % 3:
            path.unlink()
    for name in STAGES:
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return checkout


@pytest.mark.slow
def test_digits_are_read_from_folders_learned_and_proven(digits):
    reports = {name: json.loads((digits / "reports" / f"{name}.json").read_text()) for name in ("prepare", "train", "verify")}
    assert reports["prepare"]["metrics"]["raw_rows"] == 1667
    assert reports["prepare"]["facts"]["near_repeats"]["why_not"] == "columns of files are compared for equality only"
    assert reports["train"]["metrics"]["test_accuracy"] > 0.8
    assert reports["verify"]["candidates"]["onnxruntime"]["status"] == "proven"
    candidate = Candidate.load(digits / "models/candidates/onnxruntime")
    features = {one["name"]: one for one in candidate.profile["features"]}
    assert list(features) == ["picture.width", "picture.height", "picture.brightness", "picture.contrast"]
    assert features["picture.width"]["values"] == [28.0]
    assert (candidate.inputs[0].low, candidate.inputs[0].high) == (np.float32(-0.13 / 0.31), np.float32((1 - 0.13) / 0.31))


@pytest.mark.slow
def test_training_and_the_served_candidate_encode_a_picture_byte_for_byte(digits):
    prepared, candidate = digits / "data/prepared", Candidate.load(digits / "models/candidates/onnxruntime")
    rows = dataset.read(prepared, "test")
    in_training = dataset.encode(dataset.read_preprocess(prepared)[0], rows)
    served = preprocess.build(candidate.preprocess, candidate.inputs, candidate.dimensions).encode(rows.columns)
    assert [row["x"].tobytes() for row in in_training] == [row["x"].tobytes() for row in served]
    model = ServedModel(digits / "models/candidates/onnxruntime")
    labels = model.predict({"picture": rows.columns["picture"][:4]})["label"]
    assert len(labels) == 4
    assert {*labels} <= {*map(str, range(10))}


@pytest.mark.slow
@pytest.mark.long
def test_a_number_beside_the_picture_is_trained_on_and_the_three_best_digits_are_answered(checkout_of, base_params, digits, stage):
    checkout = checkout_of("digit-fields")
    overlay = yaml.safe_load((checkout / "examples/digits/fields.yaml").read_text(encoding="utf-8"))
    with_params(checkout, base_params, loading.merge(overlay, {"train": {"epochs": 4, "min_score": 0.8}}))
    shutil.copytree(digits / "data/raw/digits", checkout / "data/raw/digits")
    for name in STAGES:
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    row = json.loads((checkout / "reports/verify.json").read_text())["candidates"]["onnxruntime"]
    assert (row["status"], row["answer_flip_rate"]) == ("proven", 0)
    rows = dataset.read(checkout / "data/prepared", "test").take(range(4))
    made = ServedModel(checkout / "models/candidates/onnxruntime").predict(rows.columns)
    for label, text in zip(made["label"], made["answer"], strict=True):
        best = json.loads(text)
        assert (len(best), best[0]["label"]) == (3, label)
        assert 1 >= best[0]["probability"] >= best[1]["probability"] >= best[2]["probability"] >= 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.engine
def test_the_image_of_the_digits_is_accepted(digits, stage, engine):
    for name in IMAGE:
        done = stage(digits, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    assert json.loads((digits / "release.json").read_text())["accepted"]
    _remove_images(engine)


def test_the_params_of_the_page_are_valid(base_params):
    text = (Path(__file__).parents[2] / "docs/how-to/pictures.md").read_text(encoding="utf-8")
    block, *others = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for other in others:
        loading.parse(loading.merge(loading.merge(base_params, yaml.safe_load(block)), yaml.safe_load(other)))
    values = loading.parse(loading.merge(base_params, yaml.safe_load(block)))
    assert values.preprocess.entries["x"]["resize_to"] == 256
    for params in re.findall(r"`(resize[^`]*|color[^`]*|mean[^`]*)`", text):
        entry = yaml.safe_load("{kind: image, " + params.partition("`")[0] + "}") if ":" in params else {}
        changed = loading.merge(yaml.safe_load(block), {"preprocess": {"inputs": {"x": entry}}}) if entry else yaml.safe_load(block)
        loading.parse(loading.merge(base_params, changed))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty small photos in two classes."""
    raw = tmp_path_factory.mktemp("photos") / "raw"
    for seed in range(60):
        label = ("level", "tilted")[seed % 2]
        (raw / label).mkdir(parents=True, exist_ok=True)
        photo = drawn(90, 70, seed=seed).rotate(30 if seed % 2 else 0)
        (raw / label / f"{seed:02}.jpg").write_bytes(encoded(photo, "JPEG"))
    return raw


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.engine
def test_a_resnet18_from_a_checkpoint_answers_a_jpeg_by_curl_as_eager_does(folder, tmp_path, checkout_of, base_params, stage, engine):
    weights, code = tmp_path / "resnet18.pdparams", tmp_path / "code"
    code.mkdir()
    (code / "photo_model.py").write_text(MODEL, encoding="utf-8")
    subprocess.run([sys.executable, "-c", TRAINER, str(folder), str(weights)], check=True)
    overlay = yaml.safe_load(
        textwrap.dedent(f"""
        name: photos
        code: {{root: {code}, watch: {code}}}
        data: {{fetch: {{}}, raw: {folder}, reader: pictures, kwargs: {{}}, inputs: [picture], task: classification,
               classes: [level, tilted], validation: 0.2, test: 0.4}}
        preprocess:
          inputs: {{x: {{kind: image, column: picture, resize_to: 72, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}}}
        model:
          factory: photo_model:build
          kwargs: {{classes: 2}}
          inputs: [{{name: x, dtype: float32, shape: [batch, 3, 64, 64]}}]
        train: {{source: {{checkpoint: {weights}}}, min_score: null}}
        """)
    )
    checkout = with_params(checkout_of("photos"), base_params, overlay)
    for name in (*STAGES, *IMAGE):
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    release = json.loads((checkout / "release.json").read_text())
    assert release["accepted"]
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(encoded(drawn(120, 80, seed=99), "JPEG"))
    with in_sandbox(engine, json.loads((checkout / "image.json").read_text())["image_id"], memory_bytes=10**9) as sandbox:
        answer = _curl(f"http://{sandbox.host}:{sandbox.port}/v2/models/photos/infer", photo)
    _remove_images(engine)
    scores = np.array(answer["outputs"][0]["data"], np.float32)
    eager = _eager(weights, checkout, photo.read_bytes())
    np.testing.assert_allclose(scores, eager, rtol=1e-4, atol=1e-4 * np.abs(eager).max())
    assert answer["outputs"][1]["data"] == [("level", "tilted")[int(eager.argmax())]]


def _curl(url, file):
    """The answer of a server that may still be starting."""
    command = [shutil.which("curl"), "-s", "--retry", "60", "--retry-all-errors", "--retry-delay", "1", "--fail", url]
    done = subprocess.run([*command, "--data-binary", f"@{file}"], capture_output=True, check=True)
    return json.loads(done.stdout)


def _eager(weights, checkout, content):
    """The scores of the model with its own weights, for a picture that training would encode."""
    made, _, _ = dataset.read_preprocess(checkout / "data/prepared")
    np.save(checkout / "row.npy", made.encode({"picture": [content]})[0]["x"][None])
    code = (
        "import sys, numpy, paddle\nmodel = paddle.vision.models.resnet18(num_classes=2)\nmodel.set_state_dict(paddle.load(sys.argv[1]))\n"
        "model.eval()\nnumpy.save(sys.argv[3], model(paddle.to_tensor(numpy.load(sys.argv[2]))).numpy())\n"
    )
    files = [str(weights), str(checkout / "row.npy"), str(checkout / "scores.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    return np.load(checkout / "scores.npy")[0]


def _remove_images(engine):
    for built in engine.images.list(name=REPOSITORY):
        engine.images.remove(built.id, force=True)
