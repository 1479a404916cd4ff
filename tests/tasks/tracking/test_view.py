"""The shared view of an experiment: written once, in the form that MLflow's page reads, for the versions it was tried with."""

import base64
import json
import zlib

import pytest

from paddleship.tracking import view
from paddleship.tracking.run import Tracker
from tests.tasks.tracking.helpers import client


@pytest.fixture
def experiment(store):
    return client(store), client(store).create_experiment("reviews")


def decoded(tag):
    """The name and the state of a view."""
    saved = json.loads(tag)
    kind, _, text = saved["state"].partition(";")
    assert kind == "deflate"
    return saved["name"], json.loads(zlib.decompress(base64.b64decode(text)))


def views(store):
    tags = client(store).get_experiment_by_name("reviews").tags
    return dict(decoded(text) for key, text in tags.items() if key.startswith(view.TAGS))


def test_a_run_leaves_two_views_and_the_first_shows_winners_by_score(start, store):
    start(store).finish()
    found = views(store)
    assert set(found) == {"Which run is better", "Which candidate is better"}
    state = found["Which run is better"]
    assert (state["searchFilter"], state["orderByKey"]) == ("tags.winner = 'True'", "metrics.`score`")
    assert state["selectedColumns"] == [
        "tags.`score`", "tags.`speedup`", "metrics.`p50_us`", "tags.`size`", "tags.`verdict`"
    ]  # fmt: skip
    shown = [column for column in state["columnOrder"] if column in state["selectedColumns"]]
    assert shown == state["selectedColumns"]
    assert [chart["type"] for chart in state["compareRunCharts"]] == ["BAR"] * 5 + ["SCATTER"] * 2
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == {section["uuid"] for section in state["compareRunSections"]}


def test_the_views_find_the_winner_and_the_measured_candidates(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    api = client(store)
    number = api.get_experiment_by_name("reviews").experiment_id
    found = [{run.data.tags["variant"] for run in api.search_runs([number], one.runs)} for one in (view.WINNERS, view.CANDIDATES)]
    assert found == [{"onnxruntime"}, {"eager", "onnxruntime"}]


def test_params_in_which_the_runs_differ_are_columns(store, reports, reviews_params, tmp_path):
    for width in (16, 64):
        params = reviews_params({"model": {"kwargs": {"width": width}}})
        tracker = Tracker.start(params, tracking_uri=store, artifact_root=tmp_path.as_uri(), spool=tmp_path / "spool", tags={})
        tracker.log_report(reports[0][1], reports[1], cached=False)
        tracker.finish()
    state = views(store)["Which run is better"]
    assert state["selectedColumns"][-1] == state["columnOrder"][-1] == "params.`model.kwargs.width`"


def test_with_a_version_it_was_not_tried_with_no_tag_is_written_and_the_link_orders_the_runs(experiment, monkeypatch):
    api, number = experiment
    assert "viewStateShareKey=paddleship" in view.link("http://here/", number)
    monkeypatch.setattr("mlflow.version.VERSION", "4.0.0")
    view.share(api, number, view.WINNERS)
    assert not [key for key in api.get_experiment(number).tags if key.startswith(view.TAGS)]
    address = view.link("http://here/", number)
    assert address.startswith(f"http://here/#/experiments/{number}/runs?")
    assert "orderByKey=metrics.%60score%60" in address
    assert "viewStateShareKey" not in address


@pytest.mark.parametrize("shown", [view.WINNERS, view.of_sweep("reviews-1f0c2a9b")])
def test_its_address_has_no_user_and_no_password(shown):
    assert view.link("http://user:canary@mlflow:5000/", "1", shown).startswith("http://mlflow:5000/#/experiments/1/runs?")
