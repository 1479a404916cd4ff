"""What the given cases leave unseen is searched for: first in further rows, then in drawn values."""

import sys

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.controlflow import regions
from paddleship.conversion import exporting
from paddleship.errors import ProcessDied
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.proof.cases import inputs, searching
from paddleship.proof.cases.searching import Search
from paddleship.proof.eager_variants import ReferenceWorker

MODELS = """
import paddle
from paddle import nn

class Detector(nn.Layer):
    # Boxes of the rows whose score exceeds a threshold that no row of a normal distribution reaches.
    def __init__(self):
        super().__init__()
        self.box = nn.Linear(8, 4)

    def forward(self, x):
        return self.box(x)[x.mean(-1) > 7], x.sum(-1)

class Gated(nn.Layer):
    def __init__(self):
        super().__init__()
        self.usual, self.large = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        if x.mean() > 7:
            y = self.large(x)
        else:
            y = self.usual(x)
        return y
"""


class Here:
    """Calls the worker in this process."""

    def __init__(self, source_model):
        self.worker = ReferenceWorker(source_model)
        self.worker.become("float32")
        self.asked = 0

    def call(self, method, *arguments):
        self.asked += method == "run"
        return getattr(self.worker, method)(*arguments)


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """Searches for what a model's own drawn cases leave unseen."""
    (tmp_path / "their_seekers.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)

    def search(name, seconds=20.0, caller=Here, **more):
        paddle.seed(0)
        settings = Model(factory=f"their_seekers:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 8]}])
        building.save(building.build(settings), tmp_path / "checkpoint", {})
        source_model, specs = SourceModel(settings, tmp_path / "checkpoint"), [item.spec() for item in settings.inputs]
        (tmp_path / "exported").mkdir(exist_ok=True)
        exporting.save_program(source_model, tmp_path / "exported", specs)
        eager = caller(source_model)
        cases = inputs.generate(specs, seed=0, max_batch=8)
        answers = [eager.worker.run(case.inputs) for case in cases]
        looked = Search(specs, tmp_path / "exported", seconds=seconds, **more)
        found = searching.find(looked, eager, cases, answers, eager.worker.taken_branches(), lambda _line: None)
        return found, eager, regions.read(tmp_path / "exported")

    yield search
    sys.modules.pop("their_seekers", None)


def test_an_output_that_was_empty_is_exercised_by_drawn_values(searched):
    found, _, _ = searched("Detector")
    assert [one.exercised for one in found][-1] == ("output output_0",)
    assert found[-1].answer["output_0"].size
    assert found[-1].case.group == "edge"


def test_further_rows_of_the_data_come_first(searched):
    far = [{"x": np.full((3, 8), 1.0, "float32")}, {"x": np.linspace(8, 9, 24, dtype="float32").reshape(3, 8)}]
    found, eager, _ = searched("Detector", more=lambda: far)
    assert [(one.case.group, one.exercised) for one in found] == [("rows", ("output output_0",))]
    assert eager.asked == 2
    assert not searching.findings(found)


def test_a_branch_that_no_case_took_is_reached_and_its_ways_are_told(searched):
    found, _, decisions = searched("Gated")
    assert len(found) == 1
    assert "`if x.mean() > 7` (" in found[0].exercised[0]
    assert {0, 1} == set().union(*found[0].taken_branches.values()) | {0}
    assert not regions.untaken(decisions, {key: {0, *outcomes} for key, outcomes in found[0].taken_branches.items()})


def test_real_rows_keep_drawn_values_within_what_they_hold(searched):
    found, eager, _ = searched("Gated", seconds=1.0, real=True)
    assert not found, "the rows hold no value above 7"
    assert eager.asked > 2


class Mortal(Here):
    def call(self, method, *arguments):
        if method == "run" and self.asked == 2:
            raise ProcessDied("eager died", signal="SIGABRT")
        return super().call(method, *arguments)


def test_a_death_ends_the_search_and_what_was_found_is_kept(searched):
    far = [{"x": np.linspace(8, 9, 24, dtype="float32").reshape(3, 8)}]
    found, eager, _ = searched("Gated", caller=Mortal, more=lambda: far)
    assert len(found) == 1
    found, eager, _ = searched("Detector", caller=Mortal)
    assert eager.asked == 2


def test_what_only_drawn_inputs_exercise_is_a_warning(searched):
    found, _, _ = searched("Detector")
    assert [(finding.kind, finding.severity) for finding in searching.findings(found)] == [("drawn-only", "warning")]
