"""The shared view of an experiment: written once, in the form that MLflow's page reads, for the versions it was tried with."""

import base64
import json
import zlib

import pytest

from paddleship.tracking import view
from tests.tasks.tracking.helpers import client


@pytest.fixture
def experiment(store):
    return client(store), client(store).create_experiment("reviews")


def decoded(tag):
    kind, _, text = tag.partition(";")
    assert kind == "deflate"
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_a_run_leaves_the_view_in_its_experiment(start, store):
    tracker = start(store)
    tracker.finish()
    api = client(store)
    state = decoded(api.get_experiment_by_name("reviews").tags[view.TAG])
    assert state["orderByKey"] == "metrics.`speedup`"
    assert [chart["type"] for chart in state["compareRunCharts"]] == ["BAR"] * 5 + ["SCATTER"] * 2
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == {section["uuid"] for section in state["compareRunSections"]}


def test_the_filter_of_the_view_finds_the_measured_candidates_alone(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    api = client(store)
    found = api.search_runs([api.get_experiment_by_name("reviews").experiment_id], view.MEASURED)
    assert {run.data.tags["variant"] for run in found} == {"eager", "onnxruntime"}


def test_with_a_version_it_was_not_tried_with_no_tag_is_written_and_the_link_orders_the_runs(experiment, monkeypatch):
    api, number = experiment
    assert "viewStateShareKey=paddleship" in view.link("http://here/", number)
    monkeypatch.setattr("mlflow.version.VERSION", "4.0.0")
    view.share(api, number)
    assert view.TAG not in api.get_experiment(number).tags
    address = view.link("http://here/", number)
    assert address.startswith(f"http://here/#/experiments/{number}/runs?")
    assert "orderByKey=metrics.%60speedup%60" in address
    assert "viewStateShareKey" not in address


@pytest.mark.parametrize("sweep", [None, "reviews-1f0c2a9b"])
def test_its_address_has_no_user_and_no_password(sweep):
    assert view.link("http://user:canary@mlflow:5000/", "1", sweep=sweep).startswith("http://mlflow:5000/#/experiments/1/runs?")
