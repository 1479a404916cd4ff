"""Fresh weights with which a detection head finds something; where none are found, nothing is called proven."""

import sys

import numpy as np
import paddle
import pytest

from paddleship.config.params import Model
from paddleship.doctor import examining, exercising
from paddleship.model import building
from paddleship.model.eager import Eager, Subject
from paddleship.proof import inputs

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

class Gated(nn.Layer):
    # Takes another side for inputs that neither a normal distribution nor its edges give.
    def __init__(self):
        super().__init__()
        self.usual, self.large = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        if x.mean() > 7:
            y = self.large(x)
        else:
            y = self.usual(x)
        return y

class Stubborn(Detector):
    def forward(self, x):
        boxes, scores = super().forward(x)
        return boxes * 0, scores
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
    subject = Subject(settings, tmp_path / "checkpoint")
    cases = inputs.generate([item.spec() for item in settings.inputs], seed=0, max_batch=8)
    assert set(exercising.still(cases, exercising._ask(Eager(subject), cases))) == {"output_0"}
    done = exercising.search(subject, cases, seconds)
    return done, exercising.still(cases, exercising._ask(Eager(subject), cases))


def test_weights_are_found_with_which_a_detection_head_finds_something(tmp_path):
    assert found("Detector", tmp_path, 30) == (True, {})


def test_where_no_weights_help_the_checkpoint_stays_and_the_search_ends_in_time(tmp_path):
    done, left = found("Stubborn", tmp_path, 0.5)
    assert (done, set(left)) == (False, {"output_0"})


@pytest.mark.slow
def test_a_branch_that_only_other_inputs_take_is_reached_and_proven(tmp_path, monkeypatch):
    seen = examining.examine(described("Gated"), work=tmp_path / "work", candidates=("paddle",), seconds=600)
    assert seen.runtimes["paddle"].status == "proven", seen
    assert not [finding for finding in seen.findings if finding.kind == "uncovered-branch"]
    monkeypatch.setattr(exercising, "reach", nothing)
    seen = examining.examine(described("Gated"), work=tmp_path / "again", candidates=("paddle",), seconds=600)
    assert [finding.kind for finding in seen.findings if finding.severity != "note"] == ["uncovered-branch"]


def nothing(*_arguments):
    return []


@pytest.mark.parametrize(
    ("dtype", "limits"), [("float32", (-2.0, 0.5)), ("int64", (3, 9)), ("float32", (0.0, None)), ("bool", (None, None))]
)
def test_values_for_another_branch_stay_within_what_is_declared(dtype, limits):
    random, drawn = np.random.default_rng(0), []
    for size in np.geomspace(0.01, 1000, 50):
        drawn.append(exercising._redrawn(np.ones((4, 3), dtype), limits, size, random))
        assert drawn[-1].dtype == dtype
    low, high = limits
    assert low is None or min(array.min() for array in drawn) >= low
    assert high is None or max(array.max() for array in drawn) <= high
    assert len({array.tobytes() for array in drawn}) > 10


def test_scaled_weights_keep_their_dtype_and_whole_numbers():
    random = np.random.default_rng(0)
    assert exercising._other(np.zeros(3, np.float32), 1.0, random).any()
    assert exercising._other(np.ones((2, 2), np.float32), 4.0, random).tolist() == [[4, 4], [4, 4]]
    assert exercising._other(np.arange(3), 4.0, random).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_the_doctor_does_not_call_an_output_proven_that_never_said_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(exercising, "SECONDS", 0.5)
    seen = examining.examine(described("Stubborn"), work=tmp_path / "work", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "not exercised"
    assert "output_0" in seen.runtimes["paddle"].reason
    assert seen.outcome == "convertible with warnings"
    assert [finding.severity for finding in seen.findings if finding.kind == "not-exercised"] == ["warning"]


@pytest.mark.slow
def test_the_doctor_proves_a_detection_head_on_weights_with_which_it_finds_something(tmp_path):
    seen = examining.examine(described("Detector"), work=tmp_path / "work", candidates=("paddle",))
    assert seen.runtimes["paddle"].status == "proven", seen
    assert not [finding for finding in seen.findings if finding.kind == "not-exercised"]
