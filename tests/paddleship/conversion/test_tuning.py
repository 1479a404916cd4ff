"""Settings are kept unless another is clearly faster, and what tries them may die."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest

from paddleship.conversion import tuning
from paddleship.conversion.tuning import Trial
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registry import Registered
from paddleship.shipped.computing.spec import TensorSpec

BATCHES = [{"x": np.zeros((1, 2), np.float32)}]


class Slept:
    """Takes the time that its settings ask for."""

    def __init__(self, seconds):
        self._seconds = seconds

    def run(self, inputs):
        time.sleep(self._seconds)


class FasterWithoutArena(tuning.TuningWorker):
    def prepare(self, key, options, thread_count):
        self._loaded[key] = Slept(0.001 if options.get("arena") is False else 0.02)
        return 0.02


class DiesWithoutArena(FasterWithoutArena):
    def prepare(self, key, options, thread_count):
        if options.get("arena") is False:
            os._exit(9)
        return super().prepare(key, options, thread_count)


class RefusesAll(FasterWithoutArena):
    def prepare(self, key, options, thread_count):
        raise ValueError("not this one")


@pytest.fixture
def folder(tmp_path):
    specs = (TensorSpec("x", "float32", ("batch", 2)),)
    Candidate("onnxruntime", "m", "onnxruntime", "float32", 1, specs, (), {}, "", "regression", options={"opset": 17}).save(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("default", "other", "wins"),
    [
        ((1.0, 0.01), (0.5, 0.01), True),
        ((1.0, 0.6), (0.5, 0.01), False),
        ((1.0, 0.01), (0.5, 0.6), False),
        ((1.0, 0.001), (0.98, 0.001), False),
        ((1.0, 0.01), (1.5, 0.01), False),
        ((1.0, 0.01), (None, None), False),
        ((None, None), (0.5, 0.01), False),
    ],
)
def test_the_default_stays_unless_another_is_faster_by_more_than_the_spread(default, other, wins):
    trials = [Trial("arena", True, *default), Trial("arena", False, *other)]
    assert tuning.best(trials) is not wins


def test_what_is_faster_goes_into_the_candidate_and_everything_tried_is_told(folder, monkeypatch):
    monkeypatch.setattr(tuning, "TuningWorker", FasterWithoutArena)
    tuned = tuning.tune(folder, BATCHES, seconds=2, timeout_s=60)
    assert tuned.candidate.options == {"opset": 17, "arena": False}
    assert [(trial.setting, trial.value) for trial in tuned.trials[-2:]] == [("arena", True), ("arena", False)]
    assert tuned.trials[-1].median_ms < tuned.trials[-2].median_ms
    assert str(tuned.trials[-1]).startswith("arena=False: ")


def test_a_setting_that_kills_the_process_ends_the_tuning_and_not_the_candidate(folder, monkeypatch):
    monkeypatch.setattr(tuning, "TuningWorker", DiesWithoutArena)
    tuned = tuning.tune(folder, BATCHES, seconds=2, timeout_s=60)
    assert tuned.candidate.options == {"opset": 17}
    assert "exited with 9" in tuned.trials[-1].reason


def test_settings_that_are_refused_are_told_and_the_defaults_kept(folder, monkeypatch):
    monkeypatch.setattr(tuning, "TuningWorker", RefusesAll)
    tuned = tuning.tune(folder, BATCHES, seconds=1, timeout_s=60)
    assert tuned.candidate.options == {"opset": 17}
    assert all("not this one" in trial.reason for trial in tuned.trials)


def test_no_time_is_no_tuning(folder):
    assert tuning.tune(folder, BATCHES, seconds=0, timeout_s=1).trials == []


def test_fewer_threads_are_tried_than_are_allowed(folder):
    made = replace(Candidate.load(folder), threads=6)
    assert dict(tuning._alternatives(made))["threads"] == [6, 4, 2, 1]
    assert "spinning" in dict(tuning._alternatives(made))
    assert "spinning" not in dict(tuning._alternatives(Candidate.load(folder)))


@pytest.mark.parametrize(
    ("name", "shape", "offered"),
    [
        ("openvino", ("batch", "length"), True),
        ("paddle-onednn", ("batch", "length"), True),
        ("paddle", ("batch", "length"), False),
        ("onnxruntime", ("batch", "length"), False),
        ("openvino", ("batch", 2), False),
    ],
)
def test_round_sizes_are_tried_where_rows_differ_and_the_runtime_may_gain(name, shape, offered):
    specs = (TensorSpec("x", "float32", shape),)
    made = Candidate(name, "m", registry.kinds()[name].runtime, "float32", 1, specs, (), {}, "", "regression")
    assert ("bucket" in dict(tuning._alternatives(made))) == offered


@pytest.mark.parametrize(
    ("shape", "programs", "offered"),
    [
        (("batch", 2), (), True),
        (("batch", "length"), (Program("length4", {"length": 4}),), True),
        (("batch", "length"), (Program("batch4", {"batch": 4}),), False),
        ((1, 2), (), False),
    ],
)
def test_a_program_for_single_rows_is_tried_where_the_batch_is_dynamic(shape, programs, offered):
    specs = (TensorSpec("x", "float32", shape),)
    made = Candidate("openvino", "m", "openvino", "float32", 1, specs, (), {}, "", "regression", programs=programs)
    assert ("single_row_program" in dict(tuning._alternatives(made))) == offered


class FasterAndWrong(tuning.TuningWorker):
    """As a runtime whose program for single rows is faster, and answers `wrong` in their place."""

    wrong = 0.0

    def prepare(self, key, options, thread_count):
        alone = options.get("single_row_program")
        self._loaded[key] = Answered(0.001 if alone else 0.02, 1.0 + self.wrong * bool(alone))
        return 0.02


class Faster(FasterAndWrong):
    wrong = 1e-5


class Wrong(FasterAndWrong):
    wrong = 0.5


class Answered(Slept):
    def __init__(self, seconds, value):
        super().__init__(seconds)
        self._value = value

    def run(self, inputs):
        super().run(inputs)
        return {"y": np.full(3, self._value)}


@pytest.mark.parametrize(("bench", "reason"), [(Faster, ""), (Wrong, "it changes the answers: y")])
def test_a_program_for_single_rows_is_taken_where_it_is_faster_and_answers_the_same(tmp_path, monkeypatch, bench, reason):
    specs = (TensorSpec("x", "float32", ("batch", 2)),)
    Candidate("openvino", "m", "openvino", "float32", 1, specs, (), {}, "", "regression").save(tmp_path)
    monkeypatch.setattr(tuning, "TuningWorker", bench)
    tuned = tuning.tune(tmp_path, BATCHES, seconds=2, timeout_s=60)
    assert ("single_row_program" in tuned.candidate.options) == (not reason)
    assert (tuned.trials[-1].value, tuned.trials[-1].reason) == (True, reason)


@pytest.mark.parametrize(("name", "words"), [("Sums", ""), ("SumsOfAll", "it changes the answers: sum")])
def test_round_sizes_are_refused_where_padding_changes_the_answers(workshop_of, tmp_path, monkeypatch, name, words):
    alone = Registered(replace(registry.of("openvino"), settings={}), "here")
    others = registry.found()
    monkeypatch.setattr(registry, "found", lambda: {**others, "openvino": alone})
    assert workshop_of(name).make("openvino", tmp_path / "made").made
    replace(Candidate.load(tmp_path / "made"), warm_shapes=({"x": [1, 16], "ids": [1, 32]},)).save(tmp_path / "made")
    rows = [{"x": np.ones((1, 16), np.float32), "ids": np.ones((1, length), np.int64)} for length in (3, 4)]
    as_they_are, rounded = tuning.tune(tmp_path / "made", rows, seconds=2, timeout_s=60).trials
    assert as_they_are.median_ms is not None
    assert (rounded.value, rounded.reason, rounded.median_ms is None) == (16, words, bool(words))
