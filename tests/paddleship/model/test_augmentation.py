"""Pictures that training changes: by the seed, the epoch and the row alone, and nowhere else."""

import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from paddleship.config import loading
from paddleship.config.sections.train import Augment
from paddleship.errors import BadInput, ModelError, ParamsError
from paddleship.model import augmentation, building
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import TensorSpec
from tasks.prepare import prepare
from tasks.train import train
from tests.pictures import drawn, encoded

MODULE = """
import io
import os

import numpy as np
import paddle
from paddle import nn
from PIL import Image, ImageOps


def read(raw):
    random = np.random.default_rng(0)
    for _ in range(40):
        pixels = random.integers(0, 255, (8, 8, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        yield {"x": file.getvalue(), "y": [float(pixels[:, :4].mean() / 255 - pixels[:, 4:].mean() / 255)]}


def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 1))


def invert(picture, random):
    return ImageOps.invert(picture) if random.random() < 0.5 else picture


def array(picture, random):
    return np.asarray(picture)


def broken(picture, random):
    return picture.nothing


def trainer(job, epochs, until):
    optimizer = paddle.optimizer.SGD(0.01, parameters=job.layer.parameters())
    saved, first = "last.pdparams", 0
    if os.path.exists(saved):
        state = paddle.load(saved)
        job.layer.set_state_dict(state["model"])
        first = state["epoch"]
    for epoch in range(first, min(epochs, until)):
        for arguments, labels in job.batches("train", 8, seed=epoch):
            loss = nn.functional.mse_loss(job.layer(*arguments), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        paddle.save({"model": job.layer.state_dict(), "epoch": epoch + 1}, saved)
"""
SPEC = TensorSpec("x", "float32", ("batch", 3, 24, 24))
ALL = Augment(flip=True, crop=0.6, rotate=20, color=0.3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "their_pictures.py").write_text(MODULE)
    (tmp_path / "raw").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("their_pictures", None)


def params(**settings):
    values = {
        "name": "x",
        "code": {"watch": "their_pictures.py"},
        "data": {
            "raw": "raw",
            "reader": "their_pictures:read",
            "inputs": ["x"],
            "label": "y",
            "task": "regression",
            "validation": 0.2,
            "test": 0.2,
        },
        "preprocess": {"inputs": {"x": {"kind": "image", "resize": "exact"}}},
        "model": {"factory": "their_pictures:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, 8, 8]}]},
        "train": {"epochs": 3, "batch_size": 8, **settings},
        "package": {"repository": "x"},
    }
    return loading.parse(values)


def weights(folder, **settings):
    """The weights after a training with these params, from rows that were prepared before."""
    train(params(**settings))
    return load_file(folder / "models/checkpoint" / building.WEIGHTS)["1.weight"]


def rows(settings=ALL, *, seed=7, spec=SPEC, count=6, **entry):
    made = build({"inputs": {"x": {"kind": "image", "column": "x", "resize": "exact"} | entry}}, [spec])
    values = [encoded(drawn(seed=number)) for number in range(count)]
    return augmentation.by_epoch(settings, made, {"x": values}, seed=seed), made.encode({"x": values})


def test_a_row_is_drawn_by_the_seed_the_epoch_and_its_number_alone():
    of_epoch, plain = rows()
    first = [row["x"] for row in of_epoch(0)[:]]
    for again in (of_epoch(0), rows()[0](0)):  # in another order, and in another process
        for number in (4, 1, 5):
            assert np.array_equal(again[number]["x"], first[number])
    others = [of_epoch(1)[2]["x"], rows(seed=8)[0](0)[2]["x"], plain[2]["x"]]
    assert all(not np.array_equal(first[2], other) for other in others)
    assert len({row.shape for row in [*first, *others]}) == 1


@pytest.mark.parametrize("settings", [{"crop": 0.5}, {"rotate": 15}, {"color": 0.4}], ids=str)
def test_each_change_keeps_the_size_and_most_of_the_picture(settings):
    of_epoch, plain = rows(Augment(**settings), count=4)
    for changed, as_it_is in zip(of_epoch(0), plain, strict=True):
        assert changed["x"].shape == as_it_is["x"].shape
        assert 0 < np.abs(changed["x"] - as_it_is["x"]).mean() < 0.35


def test_a_flip_mirrors_half_of_the_pictures():
    of_epoch, plain = rows(Augment(flip=True), count=40)
    mirrored = [not np.array_equal(row["x"], plain[number]["x"]) for number, row in enumerate(of_epoch(0))]
    assert 10 < sum(mirrored) < 30
    number = mirrored.index(True)
    assert np.allclose(of_epoch(0)[number]["x"], plain[number]["x"][:, :, ::-1], atol=2 / 255)


def test_a_picture_of_one_channel_stays_one():
    of_epoch, plain = rows(spec=TensorSpec("x", "float32", ("batch", 1, 24, 24)), color="gray")
    assert of_epoch(0)[0]["x"].shape == plain[0]["x"].shape == (1, 24, 24)


def test_training_changes_its_pictures_and_no_others(folder):
    prepare(params())
    plain = weights(folder)
    changed = weights(folder, augment={"flip": True, "color": 0.3})
    assert not np.array_equal(plain, changed)
    assert np.array_equal(changed, weights(folder, augment={"flip": True, "color": 0.3})), "a second run draws the same"
    untouched = weights(folder, augment={"flip": False})
    assert np.array_equal(plain, untouched), "the pictures that are scored, and nothing else, are those of the data"
    assert not np.array_equal(plain, weights(folder, augment="their_pictures:invert"))


def test_a_run_that_was_ended_and_continued_gives_the_weights_of_one_that_was_not(folder):
    prepare(params())
    trained = {}
    for name, parts in {"at once": (4,), "in parts": (1, 3, 4)}.items():
        (folder / "last.pdparams").unlink(missing_ok=True)
        for until in parts:
            own = {"own": "their_pictures:trainer", "kwargs": {"epochs": 4, "until": until}}
            trained[name] = weights(folder, source=own, augment={"flip": True, "crop": 0.5})
    assert np.array_equal(trained["at once"], trained["in parts"])


@pytest.mark.parametrize(
    ("augment", "words"),
    [
        ("their_pictures:array", "train.augment 'their_pictures:array' returned ndarray: let it return a PIL.Image.Image"),
        ("their_pictures:broken", r"train.augment 'their_pictures:broken' failed on .*nothing.*: fix that function"),
        ("their_pictures:none", "train.augment 'their_pictures:none' does not exist"),
        ("json:loads", "train.augment 'json:loads' failed on"),
    ],
)
def test_a_function_that_is_no_change_of_pictures_is_named(folder, augment, words):
    prepare(params())
    with pytest.raises(ModelError, match=words):
        train(params(augment=augment))


def test_a_model_without_pictures_is_refused():
    made = build({"kind": "tensors"}, [TensorSpec("x", "float32", ("batch", 2))])
    with pytest.raises(ParamsError, match=r"train.augment changes pictures, and no input is one: set it to null"):
        augmentation.by_epoch(ALL, made, {"x": [[1, 2]]}, seed=0)


def test_code_that_no_stage_watches_is_refused(folder):
    (folder / "elsewhere.py").write_text("def change(picture, random):\n    return picture\n")
    prepare(params())
    with pytest.raises(BadInput, match=r"train.augment 'elsewhere:change' is in .* not below code.watch"):
        train(params(augment="elsewhere:change"))


@pytest.mark.parametrize(
    ("augment", "words"),
    [
        (["flip"], r"train.augment: must be null, \{flip: true, crop: 0.8, …\} or module:function \(got \['flip'\]\)"),
        ({"crop": 1.5}, "crop: must be less than 1"),
        ({"blur": 1}, "unknown key 'train.augment.built-in.blur'"),
    ],
)
def test_other_forms_are_refused(augment, words):
    with pytest.raises(ParamsError, match=words):
        params(augment=augment)
