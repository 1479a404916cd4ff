"""A preprocess class of the user's code: that of the how-to page, and what is wrong with others."""

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from paddleship.config import loading, watched
from paddleship.data import dataset, input_encoders
from paddleship.data.row_validation import RowValidator
from paddleship.errors import BadInput, DataError
from paddleship.image import user_packages
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.spec import TensorSpec

PAGE = (Path(__file__).parents[3] / "docs/how-to/own-preprocess.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n# my_signal.py[^\n]*\n(.*?)^```$", PAGE, re.M | re.S)
(OVERLAY,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
ROWS = [{"signal": f"{n};2;0.5;{n / 4}", "label": n % 2} for n in range(1, 61)]
X = TensorSpec("x", "float32", ("batch", 4))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    root = tmp_path / "code"
    root.mkdir()
    (root / "my_signal.py").write_text(CODE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(root), *sys.path])
    return root


@pytest.fixture
def params(folder, reviews_params):
    def of(root=folder, **entry):
        page = yaml.safe_load(OVERLAY)
        page["preprocess"]["inputs"]["x"] |= entry
        changed = {"code": {"root": str(root), "watch": str(root)}, "data": {"inputs": ["signal"], "validation": 0.2, "test": 0.2}}
        return reviews_params(loading.merge(page, changed))

    return of


def prepared(values, folder):
    splits, _ = dataset.clean(ROWS, values.data, RowValidator.of(values))
    dataset.write(splits, dataset.describe(splits, values), folder)
    return splits


def test_the_class_of_the_page_learns_encodes_and_travels_with_the_data(params, folder, tmp_path):
    (tmp_path / "prepared").mkdir()
    splits = prepared(params(), tmp_path / "prepared")
    largest = max(float(text.split(";")[0]) for text in splits["train"].columns["signal"])
    (folder / "my_signal.py").write_text("raise SystemExit('the checkout was read')", encoding="utf-8")
    made, config, specs = dataset.read_preprocess(tmp_path / "prepared")
    assert config["inputs"]["x"]["state"] == {"largest": largest}
    (row,) = made.encode({"signal": ["1;2;3;4"]})
    np.testing.assert_allclose(row["x"], np.array([1, 2, 3, 4]) / largest, rtol=1e-6)
    assert [(one.name, one.dtype) for one in made.requests] == [("signal", "str")]
    assert made.longest_text == 1024
    assert made.encoders[0].learns
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 it goes to other processes
    assert again.encode({"signal": ["1;2;3;4"]})[0]["x"].tobytes() == row["x"].tobytes()
    assert preprocess.build(config, specs).encoders[0].spec == specs[0]
    assert "my_signal" not in sys.modules


def test_two_candidates_keep_to_their_own_code(params, folder):
    now = input_encoders.declared(params()).encoders[0]
    (folder / "my_signal.py").write_text(CODE.replace("/ self.largest", "* 100"), encoding="utf-8")
    later = input_encoders.declared(params()).encoders[0]
    assert [float(one.encode("3;0;0;0")[0]) for one in (now, later)] == [3.0, 300.0]


def test_a_value_that_it_refuses_is_named_with_its_row(params):
    values = params()
    with pytest.raises(DataError, match=r"row 60 of data\.reader does not fit model\.inputs: input 'signal' is 'a;b': give numbers"):
        dataset.clean([*ROWS, {"signal": "a;b", "label": 0}], values.data, RowValidator.of(values))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"encoder": "elsewhere:Signal"}, "'elsewhere:Signal' is not below code.watch, so it could not travel"),
        ({"encoder": "my_signal:Nothing"}, "'my_signal:Nothing' does not import"),
        ({"encoder": "my_signal:TensorSpec"}, "'my_signal:TensorSpec' is no subclass of InputEncoder"),
        ({"kwargs": {"seperator": ","}}, r"has no param 'seperator' \(it has separator\)"),
        ({"requirements": ["jieba"]}, "requires 'jieba': pin it"),
    ],
)
def test_what_is_wrong_with_a_class_is_named(params, entry, words):
    with pytest.raises(DataError, match=words):
        RowValidator.of(params(**entry))


def test_code_that_no_stage_watches_is_refused(params, folder):
    (folder / "model").mkdir()
    (folder / "model/__init__.py").touch()
    values = params()
    watched.require(values)
    values = values.model_copy(update={"code": values.code.model_copy(update={"watch": str(folder / "model")})})
    with pytest.raises(BadInput, match=r"preprocess\.inputs\.x\.encoder 'my_signal:Signal' is in .* not below code\.watch"):
        watched.require(values)


def test_the_image_gets_the_packages_that_it_requires(params):
    encoder = input_encoders.declared(params(requirements=["jieba==0.42.1"])).encoders[0]
    config = {"inputs": {"x": {"kind": "own", "column": "signal", **encoder.stored()}}}
    assert user_packages.pins(type("Candidate", (), {"preprocess": config})()) == ["jieba==0.42.1"]
