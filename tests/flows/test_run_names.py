"""What flow runs are called."""

import importlib

import pytest

from paddleship.config import loading
from paddleship.config.sections.train import Train
from paddleship.orchestration import run_names
from paddleship.tracking import names
from tests.flows.helpers import REPOSITORY, git

COMMITTED = {"name": "reviews", "train.epochs": 8, "train.loss": None, "model.kwargs.width": 32, "sweep.trials": 4}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "reviews"),
        ({"train.epochs": 3}, "reviews: epochs=3"),
        ({"train.epochs": 3, "model.kwargs.width": 64}, "reviews: epochs=3, width=64"),
        ({"train.patience": 2}, "reviews: patience=2"),
        (
            {"train.a": 1, "train.b": 2, "train.c": 3, "model.kwargs.deep": True, "seed": 4, "data.raw": "x", "model.factory": "y"},
            "reviews: a=1, b=2, c=3, deep=true, seed=4, raw=x, …",
        ),
        ({"sweep.trials": 9}, "reviews"),
        ({"name": "linear", "train.epochs": 3, "data.raw": "x"}, "linear: epochs=3, width=32"),
    ],
)
def test_a_name_says_the_model_and_which_params_differ_from_the_committed_ones(changed, words):
    assert run_names.describe(COMMITTED | changed, COMMITTED, first={}) == words


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "linear: a=1, b=2, width=32"),
        ({"model.kwargs.width": 64}, "linear: width=64"),
        ({"seed": 9, "model.kwargs.width": 64}, "linear: width=64, seed=9"),
    ],
)
def test_a_model_that_is_not_the_committed_one_is_told_first_by_what_differs_from_its_first_run(changed, words):
    first = {"name": "linear", "model.kwargs.a": 1, "model.kwargs.b": 2, "model.kwargs.width": 32, "seed": 0}
    assert run_names.describe(first | changed, COMMITTED, first=first) == words


def test_a_model_that_is_not_the_committed_one_is_told_by_its_kwargs_and_what_differs_from_the_defaults_of_train(toy, tmp_path):
    mine = {"name": "mine", "train": {"epochs": 77, "weight_decay": Train().weight_decay}, "model": {"kwargs": {"heads": 4}}}
    values = loading.parse(loading.merge(loading.read(toy / "params.yaml"), mine))
    name = run_names.of_pipeline(values, toy, tmp_path)
    assert name.startswith("mine: ")
    assert "heads=4" in name
    assert "epochs=77" in name
    assert "weight_decay" not in name
    other = loading.parse(loading.merge(values.model_dump(mode="json"), {"seed": 8}))
    assert run_names.of_pipeline(other, toy, tmp_path).startswith("mine: seed=8")
    assert run_names.of_pipeline(values, toy, tmp_path) == name
    (tmp_path / run_names._FIRST).write_text("{")
    assert run_names.of_pipeline(values, toy, tmp_path) == name, "a damaged file does not end a run"


def test_only_what_the_stages_get_counts_as_different(toy, tmp_path):
    committed = loading.read(toy / "params.yaml")
    same = loading.parse(loading.merge(committed, {"train": {"weight_decay": Train().weight_decay}, "seed": float(committed["seed"])}))
    wider = loading.parse(loading.merge(committed, {"train": {"epochs": 77}}))
    assert [run_names.of_pipeline(values, toy, tmp_path) for values in (same, wider)] == [same.name, f"{same.name}: epochs=77"]


def test_a_commit_with_params_of_another_release_leaves_the_model(toy, tmp_path):
    values = loading.load(toy / "params.yaml")
    (toy / "params.yaml").write_text("name: other\n")
    git(toy, "commit", "-qam", "params of another release")
    assert run_names.of_pipeline(values, toy, tmp_path).startswith(values.name)


def test_a_name_ends_with_the_end_of_the_id_and_a_better_description_replaces_the_first():
    ending = names.ending("01234567-0123-0123-0123-0123459f31c2")
    assert run_names.with_description("calm-otter", "reviews: epochs=3", ending=ending) == "reviews: epochs=3 (9f31c2)"
    assert run_names.with_description("params.yaml (9f31c2)", "reviews", ending=ending) == "reviews (9f31c2)"
    assert run_names.with_description("calm-otter", "r" * 300, ending=ending) == f"{'r' * 119}… (9f31c2)"


@pytest.mark.parametrize("chosen", ["wide", "wide model", "try-2", "reviews: epochs=3 (9f31c2)", "width=64 (red-fox 2)"])
@pytest.mark.parametrize("ending", ["", " (012345)"])
def test_a_name_that_somebody_chose_is_kept(chosen, ending):
    assert run_names.with_description(chosen, "reviews", ending=ending) == chosen


@pytest.mark.parametrize("entrypoint", sorted({one["entrypoint"] for one in loading.read(REPOSITORY / "prefect.yaml")["deployments"]}))
def test_every_registered_flow_says_what_it_does_and_with_what_before_anything_can_fail(entrypoint, monkeypatch):
    file, _, name = entrypoint.partition(":")
    flow = getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)

    class Named(Exception):
        pass

    def set_name(description):
        raise Named(description)

    monkeypatch.setattr(run_names, "set_name", set_name)
    if flow.flow_run_name is None:
        with pytest.raises(Named, match=r"\w+ (\w+ )*\S+"):
            flow.fn()
    else:
        assert flow.flow_run_name().startswith(f"{flow.name}: ")
