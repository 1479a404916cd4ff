"""The runs of a sweep in a real store: found by name, linked to the sweep's run, and kept when that is deleted."""

import pytest

from paddleship.tracking import runs, view
from paddleship.tracking.run import Tracker
from tests.tasks.tracking.helpers import children, client

NAME = 'epochs=2, candidates=["paddle", null] (reviews-1f0c2a9b 3)'


@pytest.fixture
def begun(store, reviews_params, tmp_path):
    """Start a pipeline run of that name."""

    def make(name, flow_run):
        tags = {"mlflow.runName": name, "prefect_flow_run": flow_run}
        artifacts = (tmp_path / "artifacts").as_uri()
        return Tracker.start(reviews_params(), tracking_uri=store, artifact_root=artifacts, spool=tmp_path / "spool", tags=tags)

    return make


def test_the_newest_run_of_a_name_is_found_whatever_is_in_the_name(store, begun):
    for number in range(2):
        begun(NAME, f"flow-{number}").finish()
    assert runs.of_name(store, "reviews", NAME).flow_run == "flow-1"
    assert runs.of_name(store, "reviews", "another") is None
    assert runs.of_name(store, "no such model", NAME) is None


def test_a_variant_is_a_child_of_the_sweep_and_stays_when_the_sweep_is_deleted(store, begun, reports):
    sweep, variant = begun("reviews-1f0c2a9b", "flow-s"), begun(NAME, "flow-v")
    for report in reports[0]:
        variant.log_report(report, reports[1], cached=False)
    variant.finish()
    run = runs.of_name(store, "reviews", NAME)
    runs.link_variant(store, run, sweep="reviews-1f0c2a9b", parent=sweep.run_id, label="epochs=2")
    assert sweep.share_sweep("reviews-1f0c2a9b", title="epochs=2 is best") is None, "a store without a server has no pages"
    sweep.finish()
    linked = client(store).get_run(run.run_id)
    assert linked.data.tags["mlflow.parentRunId"] == sweep.run_id
    candidates = children(store, run.run_id)
    assert {one.data.tags["sweep"] for one in candidates.values()} == {"reviews-1f0c2a9b"}
    winners = client(store).search_runs([run.experiment_id], view.of_sweep("reviews-1f0c2a9b").runs)
    assert [one.data.tags["sweep_variant"] for one in winners] == ["epochs=2"]
    assert [one.info.run_name for one in winners] == ["epochs=2, onnxruntime"]
    assert "mlflow.sharedViewState.reviews-1f0c2a9b" in client(store).get_experiment(run.experiment_id).tags
    runs.delete(store, runs.named(runs.find(store), "reviews-1f0c2a9b"))
    assert [one.name for one in runs.find(store)] == [NAME]
    assert children(store, run.run_id).keys() == candidates.keys()


def test_a_variant_that_ran_again_is_in_the_view_once(store, begun, reports):
    sweep = begun("reviews-1f0c2a9b", "flow-s")
    for number in range(2):
        again = begun(NAME, f"flow-{number}")
        for report in reports[0]:
            again.log_report(report, reports[1], cached=False)
        again.finish()
        run = runs.of_name(store, "reviews", NAME)
        runs.link_variant(store, run, sweep="reviews-1f0c2a9b", parent=sweep.run_id, label="epochs=2")
    sweep.finish()
    winners = client(store).search_runs([run.experiment_id], view.of_sweep("reviews-1f0c2a9b").runs)
    assert [one.data.tags["mlflow.parentRunId"] for one in winners] == [run.run_id]
