"""Fresh weights with which a detection head finds something; where none are found, nothing is called proven."""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.doctor import examining, exercising
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof.cases import inputs, searching

MODELS = """
import paddle
from paddle import nn

class Detector(nn.Layer):
    # Boxes whose score exceeds 0.5; the bias of a rare class starts far below.
    def __init__(self):
        super().__init__()
        self.body, self.score, self.box = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.score.bias.set_value(paddle.full([4], -4.6))

    def forward(self, x):
        hidden = nn.functional.relu(self.body(x))
        scores = nn.functional.sigmoid(self.score(hidden))
        kept = (scores.max(-1) > 0.5).astype("float32").unsqueeze(-1)
        return self.box(hidden) * kept, scores

class ZeroAtFirst(Detector):
    # The last layer of a diffusion model is zero before it is trained.
    def __init__(self):
        super().__init__()
        self.box.weight.set_value(paddle.zeros([8, 4]))

    def forward(self, x):
        hidden = self.body(x)
        return self.box(hidden), self.score(hidden)

class Stubborn(Detector):
    def forward(self, x):
        boxes, scores = super().forward(x)
        return boxes * 0, scores

class Decodes(Detector):
    # With other weights, it stops at once for some inputs, and returns nothing.
    def forward(self, x):
        if float(self.score.bias.max()) < -4.5:
            return [self.score(x) * 0]
        return [] if float(x.sum()) > 0 else [self.score(x)]
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_heads.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_heads", None)


def described(name):
    return Model(factory=f"their_heads:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 8]}])


def found(name, tmp_path, seconds):
    """Whether the search found weights, and what is still after it."""
    paddle.seed(0)
    settings = described(name)
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    source_model = SourceModel(settings, tmp_path / "checkpoint")
    cases = inputs.generate([item.spec() for item in settings.inputs], seed=0, max_batch=8)
    assert set(exercising.unvarying(cases, exercising._ask(Eager(source_model), cases))) == {"output_0"}
    done = exercising.search(source_model, cases, seconds)
    return done, exercising.unvarying(cases, exercising._ask(Eager(source_model), cases))


def test_weights_are_found_with_which_a_detection_head_finds_something(tmp_path):
    assert found("Detector", tmp_path, 30) == (True, [])


def test_weights_are_found_for_a_last_layer_that_is_zero_at_first(tmp_path):
    assert found("ZeroAtFirst", tmp_path, 30) == (True, [])


def test_where_no_weights_help_the_checkpoint_stays_and_the_search_ends_in_time(tmp_path):
    done, left = found("Stubborn", tmp_path, 0.5)
    assert (done, set(left)) == (False, {"output_0"})


def test_weights_with_which_the_model_no_longer_answers_every_case_are_no_better(tmp_path):
    assert not found("Decodes", tmp_path, 1.0)[0]


def test_scaled_weights_keep_their_dtype_and_whole_numbers():
    random = np.random.default_rng(0)
    assert exercising._other(np.zeros(3, np.float32), 1.0, random).any()
    assert exercising._other(np.ones((2, 2), np.float32), 4.0, random).tolist() == [[4, 4], [4, 4]]
    assert exercising._other(np.arange(3), 4.0, random).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_the_doctor_searches_inputs_where_the_weights_are_given(tmp_path, monkeypatch):
    settings = described("Detector")
    paddle.seed(0)
    layer = building.build(settings)
    layer.score.bias.set_value(paddle.full([4], -9.0))  # no row of a normal distribution reaches the threshold
    building.save(layer, tmp_path / "trained", {})
    seen = examining.examine(settings, work=tmp_path / "work", checkpoint=tmp_path / "trained", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "proven", seen
    assert not [finding for finding in seen.findings if finding.kind == "not-exercised"]
    monkeypatch.setattr(searching, "find", lambda *_arguments: [])
    seen = examining.examine(settings, work=tmp_path / "again", checkpoint=tmp_path / "trained", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "not exercised"


@pytest.mark.slow
def test_the_doctor_does_not_call_an_output_proven_that_never_said_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(exercising, "SECONDS", 0.5)
    monkeypatch.setattr(searching, "find", partial(short, searching.find))
    seen = examining.examine(described("Stubborn"), work=tmp_path / "work", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "not exercised"
    assert "output_0" in seen.runtimes["paddle"].reason
    assert (seen.outcome, seen.exit_code) == ("not exercised", 3)
    assert [finding.severity for finding in seen.findings if finding.kind == "not-exercised"] == ["warning"]


def short(find, search, *arguments):
    return find(replace(search, seconds=0.5), *arguments)


@pytest.mark.slow
def test_the_doctor_proves_a_detection_head_on_weights_with_which_it_finds_something(tmp_path):
    seen = examining.examine(described("Detector"), work=tmp_path / "work", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "proven", seen
    assert not [finding for finding in seen.findings if finding.kind == "not-exercised"]
