"""train.source: {checkpoint: PATH}, from a file to a checkpoint of ours, and files that cannot be used."""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
from safetensors.numpy import load_file, save_file

from paddleship.config import loading
from paddleship.errors import ModelError, ParamsError
from paddleship.model import building
from paddleship.stage.fingerprint import fingerprint
from tasks.prepare import prepare
from tasks.train import train
from tests import small_linear

RIGHT = {"weight": np.array([[1.0], [-1.0]], np.float32), "bias": np.zeros(1, np.float32)}


@pytest.fixture
def params(tmp_path, monkeypatch):
    """Params of a linear model whose rows are prepared, with this source."""
    small_linear.write(tmp_path, "their_imported")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def of(source, **settings):
        return loading.parse(small_linear.values("their_imported", source=source, **settings))

    prepare(of("loop"))
    yield of
    sys.modules.pop("their_imported", None)


def save(name):
    """A file, or folder, with the right weights."""
    if name == "folder":
        layer = paddle.nn.Linear(2, 1)
        layer.set_state_dict(RIGHT)
        building.save(layer, Path(name), {})
    elif name.endswith(".safetensors"):
        save_file(RIGHT, name)
    else:
        paddle.save({key: paddle.to_tensor(array) for key, array in RIGHT.items()}, name)
    return name


@pytest.mark.parametrize("name", ["a.pdparams", "a.safetensors", "folder"])
def test_weights_of_a_file_are_scored_and_saved_with_the_name_and_hash_of_the_file(params, tmp_path, name):
    values = params({"checkpoint": save(name)}, min_score=0.9)
    report = train(values)
    assert report.verdict, report.verdict.failures
    assert report.headline.startswith("test r2 1.0000 (mean ")
    assert report.headline.endswith(f" with the weights of {name} (imported)")
    assert report.findings == []
    assert "epochs" not in report.metrics
    kept = json.loads((tmp_path / "models/checkpoint" / building.FACTS).read_text())
    fingerprint(values, tmp_path)
    digest = json.loads((tmp_path / "weights_source.json").read_text())["sha256"]
    assert kept["imported"] == {"imported_from": name, "imported_sha256": digest, "notes": []}
    assert np.array_equal(load_file(tmp_path / "models/checkpoint" / building.WEIGHTS)["weight"], RIGHT["weight"])


def test_imported_weights_that_miss_the_score_are_told_so_with_what_to_check(params):
    wrong = {"weight": paddle.to_tensor([[1.0], [1.0]]), "bias": paddle.zeros([1])}
    paddle.save(wrong, "a.pdparams")
    report = train(params({"checkpoint": "a.pdparams"}, min_score=0.9))
    (failure,) = report.verdict.failures
    assert "check that the file belongs to model.factory, preprocess and data.classes" in str(failure)


def test_another_file_of_that_name_makes_another_source(params, tmp_path):
    values = params({"checkpoint": save("a.pdparams")})
    fingerprint(values, tmp_path)
    before = (tmp_path / "weights_source.json").read_text()
    paddle.save({"weight": paddle.zeros([2, 1]), "bias": paddle.zeros([1])}, "a.pdparams")
    fingerprint(values, tmp_path)
    assert (tmp_path / "weights_source.json").read_text() != before


def test_a_file_that_is_not_there_is_told_before_anything_runs(params, tmp_path):
    with pytest.raises(
        ModelError, match=r"train.source.checkpoint is 'none.pdparams', but it does not exist: correct the path, or give an absolute one"
    ):
        fingerprint(params({"checkpoint": "none.pdparams"}), tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("loopy", "train.source"),
        ({"checkpont": "a.pdparams"}, "train.source"),
        ({"checkpoint": "../a.pdparams"}, "leads out of the workspace"),
    ],
)
def test_a_source_that_is_no_source_is_one_line(params, tmp_path, source, message):
    with pytest.raises(ParamsError) as refused:
        fingerprint(params(source), tmp_path)
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_files_of_other_forms_are_refused_with_what_to_give(params, tmp_path):
    (tmp_path / "a.pt").write_bytes(b"PK")
    with pytest.raises(ModelError, match=r"name a .pdparams, a .safetensors, or a folder that `train` wrote"):
        train(params({"checkpoint": "a.pt"}))
    save_file(RIGHT, "torch.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="was written by PyTorch, whose Linear layers keep their weights transposed"):
        train(params({"checkpoint": "torch.safetensors"}))
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "torch.safetensors").read_bytes()[:-3])
    with pytest.raises(ModelError, match="is no file of safetensors, or it is incomplete"):
        train(params({"checkpoint": "cut.safetensors"}))
    paddle.save({"weight": paddle.full([2, 1], float("nan")), "bias": paddle.zeros([1])}, "nan.pdparams")
    with pytest.raises(ModelError, match=r"'nan.pdparams' holds NaN or infinity in 'weight'"):
        train(params({"checkpoint": "nan.pdparams"}))
    folder = tmp_path / save("folder")
    (folder / "weights.safetensors").write_bytes((tmp_path / "torch.safetensors").read_bytes())
    with pytest.raises(ModelError, match="changed since it was written"):
        train(params({"checkpoint": "folder"}))
