"""What observing a model costs, and what it still sees when it is cut short."""

import linecache
import sys

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.controlflow.tracing import TakenBranches
from paddleship.doctor import case_runner, examining, messages, structure_checks, watching
from paddleship.doctor.eager_probe import ProbeResult, ProbeWorker
from paddleship.errors import ProcessDied, ProcessHung
from paddleship.model.eager import SourceModel
from paddleship.proof.cases.inputs import Case

MODELS = """
import random

import numpy
import paddle
from paddle import nn

class Long(nn.Layer):
    def forward(self, x):
        for _ in range(300):
            x = x + 1
        return x

class Draws(nn.Layer):
    def forward(self, x):
        x = x + random.random()
        x = x * 2
        x = x + float(numpy.random.rand())
        return x + paddle.rand([1])

class Masked(nn.Layer):
    def forward(self, x, used, unused, k):
        return (x * used).sum() + k

class Symmetric(nn.Layer):
    def forward(self, x, steps, choice, idle):
        return x + (steps[:, 1:] - steps[:, :-1]).abs().max() + (choice * (9 - choice)).sum()

class Star(nn.Layer):
    def forward(self, x, y, *rest):
        return x + y
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    (tmp_path / "their_watched.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("their_watched", None)
    linecache.clearcache()


def worker(folder, name):
    model = Model(factory=f"their_watched:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}])
    return ProbeWorker(SourceModel(model, folder / "checkpoint", 0))


def case(name="row 0 alone"):
    return Case(name, "rows", {"x": np.ones((1, 2), np.float32)}, (0,))


def test_the_states_of_random_generators_are_not_read_at_every_line(theirs, monkeypatch):
    reads, real = [], watching.random_states
    watched = worker(theirs, "Long")
    monkeypatch.setattr(watching, "random_states", lambda *which: reads.append(which) or real(*which))
    assert watched.ask(case(), 60)
    assert watched.conclude().findings == []
    assert len(reads) == 1


def test_lines_that_draw_random_numbers_are_named_whichever_generator_they_use(theirs):
    watched = worker(theirs, "Draws")
    assert watched.ask(case(), 60)
    lines = [finding.where.rpartition(":")[2] for finding in watched.conclude().findings if finding.kind == "random-forward"]
    assert lines == [str(number) for number, line in enumerate(MODELS.splitlines(), 1) if "rand" in line and "import" not in line]


def test_a_slow_model_goes_on_unobserved_and_its_answer_is_marked(theirs):
    watched = worker(theirs, "Long")
    assert watched.ask(case("slow"), 0)
    assert watched.ask(case("fast"), 60)
    probed = watched.conclude()
    assert probed.cut_short == {"slow"}
    assert probed.answers["slow"]["output"].tolist() == [[301, 301]]
    rounds = {outcome for outcomes in probed.taken_branches.values() for outcome in outcomes}
    assert rounds == {300}


def test_observing_ends_for_frames_that_are_on_the_stack(theirs):
    import their_watched

    seen = watching.Observations()
    with watching.lines(seen, TakenBranches(), seconds=0):
        their_watched.Long()(paddle.ones([1]))
        assert sys.gettrace() is None
    assert seen.cut_short
    assert len(seen.executed) <= 2


def test_a_model_that_is_too_slow_is_not_called_a_crash():
    hung, died = ProcessHung("no answer", seconds=30.0), ProcessDied("SIGSEGV")
    late = messages.killed(case_runner.NotSurvivedError(case(), hung), model_of())
    assert (late.kind, late.severity) == ("out-of-time", "error")
    assert late.advice.startswith("raise --seconds")
    assert messages.killed(case_runner.NotSurvivedError(case(), died), model_of()).kind == "crash"
    probed = ProbeResult([], crashes={"slow": hung, "dead": died})
    found = messages.refusals(probed, [case("slow"), case("dead")], model_of())
    assert [(one.kind, "on 'dead'" in one.message, "on 'slow'" in one.message) for one in found] == [
        ("crash", True, False),
        ("out-of-time", False, True),
    ]
    assert case_runner._worst({"slow": hung, "dead": died}, [case("slow"), case("dead")])[0].name == "dead"


def test_inputs_with_one_valid_value_or_a_middle_value_are_judged_by_other_values(theirs):
    declared = [
        {"name": "x", "dtype": "float32", "shape": ["batch", 2]},
        {"name": "used", "dtype": "float32", "shape": ["batch", 2], "low": 1, "high": 1},
        {"name": "unused", "dtype": "float32", "shape": ["batch", 2], "low": 1, "high": 1},
        {"name": "k", "dtype": "int64", "shape": [], "low": 2, "high": 4},
    ]
    model = Model(factory="their_watched:Masked", inputs=declared)
    watched = ProbeWorker(SourceModel(model, theirs / "checkpoint", 0))
    ones = np.ones((1, 2), np.float32)
    watched.ask(Case("row 0 alone", "rows", {"x": ones, "used": ones, "unused": ones, "k": np.array(3)}, (0,)), 60)
    assert [watched.influence(name, False) for name in ("x", "used", "unused", "k")] == [True, None, None, True]
    assert [watched.influence(name, True) for name in ("used", "unused")] == [True, False]


def test_an_input_of_which_only_differences_or_symmetric_values_matter_is_used(theirs):
    numbers = {"dtype": "int64", "shape": ["batch", 4], "low": 0, "high": 9}
    x = {"name": "x", "dtype": "float32", "shape": ["batch", 2]}
    declared = [x, *({"name": name, **numbers} for name in ("steps", "choice", "idle"))]
    watched = ProbeWorker(SourceModel(Model(factory="their_watched:Symmetric", inputs=declared), theirs / "checkpoint", 0))
    values = {name: np.array([[1, 7, 3, 0]]) for name in ("steps", "choice", "idle")}
    watched.ask(Case("row 0 alone", "rows", {"x": np.ones((1, 2), np.float32), **values}, (0,)), 60)
    assert [watched.influence(name, False) for name in ("steps", "choice", "idle")] == [True, True, False]


def test_arguments_of_any_number_are_refused_only_if_a_declared_input_needs_them(theirs):
    import their_watched

    assert list(structure_checks.signature(their_watched.Star(), ["x", "y"])) == []
    (refused,) = structure_checks.signature(their_watched.Star(), ["x", "y", "z"])
    assert (refused.kind, refused.advice) == ("signature", "write forward(self, x, y, z)")
    (missing,) = structure_checks.signature(their_watched.Star(), ["x"])
    assert "forward needs y" in missing.message


@pytest.mark.parametrize(
    ("end", "code", "row"),
    [(ProcessHung("no answer in 30 s", seconds=30.0), 3, "not judged in time"), (ProcessDied("SIGSEGV"), 2, "not tried")],
)
def test_only_a_crash_makes_a_model_that_answers_nothing_not_convertible(tmp_path, monkeypatch, end, code, row):
    def fails(_source_model, cases, **_options):
        raise case_runner.NotSurvivedError(cases[0], end)

    monkeypatch.setattr(examining.case_runner, "examine", fails)
    found = examining.examine(model_of(), work=tmp_path, candidates=("paddle",))
    assert (found.exit_code, found.runtimes["paddle"].status) == (code, row), str(found)


def model_of():
    return Model(factory="their_watched:Long", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}])
