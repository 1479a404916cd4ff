"""train.source: {exported: PATH}, from the files to a checkpoint of ours, and files that cannot be used."""

import json
import shutil
import sys

import numpy as np
import paddle
import pytest

from paddleship.config import loading
from paddleship.errors import ModelError, ParamsError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.model.exported_file import source
from paddleship.model.exported_file.plain_predictor import PlainPredictor
from paddleship.shipped.computing import program_layer
from paddleship.stage.fingerprint import fingerprint
from tasks.prepare import prepare
from tasks.train import train
from tests import small_exported, small_onnx


@pytest.fixture(scope="session")
def exported(once, tmp_path_factory):
    """The exported files and the reader, for all workers."""

    def make():
        folder = tmp_path_factory.mktemp("exported")
        small_exported.export(folder)
        return folder

    return once("exported-halves", make)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Params for the exported files in a folder whose rows are prepared, with this source, model and train."""

    def make(theirs, module):
        monkeypatch.syspath_prepend(theirs)
        monkeypatch.chdir(tmp_path)

        def of(model=(), train=(), **source):
            values = module.values(theirs, **source)
            return loading.parse(values | {"model": values["model"] | dict(model), "train": values["train"] | dict(train)})

        prepare(of())
        return of

    yield make
    paddle.set_default_dtype("float32")
    sys.modules.pop("pictures", None)


@pytest.fixture
def params(exported, prepared, tmp_path):
    """Params for a copy of the files that Paddle exported."""
    shutil.copytree(exported, tmp_path / "theirs")
    return prepared(tmp_path / "theirs", small_exported)


@pytest.fixture
def onnx_params(prepared, tmp_path):
    """Params for an `.onnx` file of a batch of this size."""

    def make(batch="batch"):
        (tmp_path / "theirs").mkdir()
        small_onnx.export(tmp_path / "theirs", batch)
        return prepared(tmp_path / "theirs", small_onnx)

    return make


def test_an_exported_file_is_compared_with_paddle_inference_scored_and_put_into_the_checkpoint(params, tmp_path):
    values = params()
    report = train(values)
    assert report.verdict, report.verdict.failures
    fingerprint(values, tmp_path)
    digest = json.loads((tmp_path / "weights_source.json").read_text())["sha256"]
    path = str(tmp_path / "theirs/inference.json")
    assert report.headline.endswith(f"as the exported file {path} (imported, sha256 {digest[:12]}…)")
    (check,) = [check for check in report.verdict.checks if check.name == "exported_file_max_rel_diff"]
    assert check.measured <= 1e-6
    checkpoint = tmp_path / "models/checkpoint"
    kept = json.loads((checkpoint / building.FACTS).read_text())
    assert kept["imported"] == {"imported_from": path, "imported_sha256": digest, "notes": ["exported program"]}
    shutil.rmtree(tmp_path / "theirs")  # later stages need the checkpoint alone
    rows = np.random.default_rng(1).normal(size=(3, 1, 8, 8)).astype("float32")
    single = Eager(SourceModel.of(values)).run({"x": rows})["output"]
    double = Eager(SourceModel.of(values), dtype="float64").run({"x": rows})["output"]
    assert double.dtype == np.float64
    assert 0 < np.abs(single - double).max() < 1e-6


@pytest.mark.parametrize("batch", ["batch", 1])
def test_an_onnx_file_is_compared_with_onnx_runtime_scored_and_put_into_the_checkpoint(batch, onnx_params, tmp_path):
    values = onnx_params(batch)()
    report = train(values)
    assert report.verdict, report.verdict.failures
    assert f"as the exported file {tmp_path}/theirs/model.onnx (imported, sha256 " in report.headline
    (check,) = [check for check in report.verdict.checks if check.name == "exported_file_max_rel_diff"]
    assert check.measured <= 1e-6
    assert report.metrics["test_accuracy"] > 0.9
    shutil.rmtree(tmp_path / "theirs")
    rows = np.random.default_rng(1).normal(size=(3, 1, 8, 8)).astype("float32")
    single = Eager(SourceModel.of(values)).run({"x": rows})["output"]
    double = Eager(SourceModel.of(values), dtype="float64").run({"x": rows})["output"]
    assert 0 < np.abs(single - double).max() < 1e-6


def test_other_kernels_may_differ_by_the_layers_own_rounding_and_by_no_more():
    layer, file = ({"y": np.array([1.0, second])} for second in (1.0, 1.00006))

    def check(rounding):
        return source.check_answers([source.Answers(layer, file, {"y": np.array([1.0, 1.0 + rounding])})]).passed

    assert not check(0)
    assert check(2e-5)
    chaotic = source.Answers(layer, {"y": np.array([1.0, 1.002])}, {"y": np.array([1.0, 1.1])})
    assert not source.check_answers([chaotic]).passed


def test_other_files_of_that_name_make_another_source(params, tmp_path):
    values = params()
    seen = []
    for name in ("", "inference.json", "inference.pdiparams"):
        if name:
            with (tmp_path / "theirs" / name).open("ab") as file:
                file.write(b" ")
        fingerprint(values, tmp_path)
        seen.append((tmp_path / "weights_source.json").read_text())
    assert len(set(seen)) == 3


def test_files_that_a_script_fetches_with_the_data_are_known_by_the_script_and_need_not_be_there_yet(tmp_path):
    (tmp_path / "fetch.py").write_text("")
    values = small_exported.values(tmp_path, exported="raw/inference.json")
    values["data"] |= {"raw": "raw", "fetch": {"model": "fetch.py"}}
    seen = []
    for text in ("", "another version"):
        (tmp_path / "fetch.py").write_text(text)
        fingerprint(loading.parse(values), tmp_path)
        seen.append(json.loads((tmp_path / "weights_source.json").read_text()))
    assert [list(one) for one in seen] == [["data.fetch.model"]] * 2
    assert seen[0] != seen[1]
    values["train"]["source"] = {"exported": "elsewhere/inference.json"}
    with pytest.raises(ModelError, match="does not exist"):
        fingerprint(loading.parse(values), tmp_path)


def test_a_layer_that_answers_differently_from_the_file_misses_a_gate_and_writes_no_checkpoint(params, tmp_path, monkeypatch):
    build = program_layer.build

    def wrong(program):
        operators = [one | {"call": "tanh"} if one.get("call") == "relu" else one for one in program["operators"]]
        return build(program | {"operators": operators})

    monkeypatch.setattr(program_layer, "build", wrong)
    report = train(params())
    (failure,) = report.verdict.failures
    assert "exported_file_max_rel_diff" in str(failure)
    assert "answers differently from the file" in str(failure)
    assert not (tmp_path / "models/checkpoint").exists()


def test_a_factory_beside_the_file_and_no_model_at_all_are_refused(params):
    with pytest.raises(ParamsError, match=r"is a whole model, so model.factory 'pictures:build' must be left out"):
        params(model={"factory": "pictures:build"})
    with pytest.raises(ParamsError, match=r"model.factory is missing: add it"):
        params(train={"source": "loop"})


def test_the_model_of_the_params_below_an_overlay_does_not_count():
    base = {"model": {"factory": "a:b", "kwargs": {"n": 1}, "inputs": []}, "train": {"source": "loop", "epochs": 3}}
    merged = loading.merge(base, {"train": {"source": {"exported": "m.json"}}})
    assert merged == {"model": {"inputs": []}, "train": {"source": {"exported": "m.json"}, "epochs": 3}}


def other_parameters(folder):
    paddle.jit.save(paddle.nn.Linear(3, 2), str(folder / "other"), input_spec=[paddle.static.InputSpec([None, 3], "float32", "x")])
    (folder / "other.pdiparams").replace(folder / "inference.pdiparams")


def cut(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: (folder / "inference.pdiparams").unlink(),
            "do not exist: put the file there, or name it in train.source.parameters",
        ),
        (other_parameters, "inference.pdiparams' holds another tensor than the program's .*: give the parameters that were exported with"),
        (cut("inference.pdiparams", 100), "inference.pdiparams' ends within"),
        (
            lambda folder: (folder / "inference.json").write_text("[" * 100_000),
            "inference.json' is no JSON, or it is incomplete .*: copy it again",
        ),
        (cut("inference.json", 500), "inference.json' is no JSON, or it is incomplete .*: copy it again"),
        (lambda folder: (folder / "inference.json").write_text('{"a": 1}'), "is JSON, but no program that Paddle exported"),
        (lambda folder: (folder / "inference.json").unlink(), "does not exist"),
    ],
)
def test_files_that_are_damaged_or_do_not_belong_together_are_one_line(params, tmp_path, spoil, message):
    values = params()
    spoil(tmp_path / "theirs")
    with pytest.raises(ModelError, match=message) as refused:
        train(values)
    assert len(str(refused.value).splitlines()) == 1


def test_a_pdmodel_that_is_no_program_and_another_suffix_are_one_line(params, tmp_path):
    (tmp_path / "no.pdmodel").write_bytes(b"\xff\xffno program")
    with pytest.raises(ModelError, match=r"'no.pdmodel' is no program that"):
        train(params(exported="no.pdmodel"))
    with pytest.raises(ModelError, match=r"name the program that Paddle exported"):
        train(params(exported="model.pt"))


def test_an_operator_that_this_paddle_does_not_know_is_one_line(params, tmp_path):
    program = tmp_path / "theirs/inference.json"
    text = program.read_text()
    assert '"1.relu"' in text
    program.write_text(text.replace('"1.relu"', '"1.no_such_operator"'))
    with pytest.raises(ModelError, match="holds an operator that this Paddle does not know") as refused:
        train(params())
    assert len(str(refused.value).splitlines()) == 1


def test_a_parameter_named_as_a_part_of_every_layer_is_one_line(params, tmp_path):
    program = tmp_path / "theirs/inference.json"
    text = program.read_text()
    assert text.count('"linear_0.w_0"') == 1
    program.write_text(text.replace('"linear_0.w_0"', '"training"'))
    with pytest.raises(ModelError, match="have names that a Paddle layer cannot hold") as refused:
        train(params())
    assert len(str(refused.value).splitlines()) == 1


def test_a_plain_predictor_runs_the_file_itself(exported):
    rows = np.zeros((2, 1, 8, 8), "float32")
    (answer,) = PlainPredictor(exported / "inference.json", exported / "inference.pdiparams").run({"x": rows})
    assert answer.shape == (2, 2)
