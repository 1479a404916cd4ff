"""`paddleship runs` on a real MLflow store, without any stage."""

import io
import os
import re
import subprocess
from dataclasses import replace

import pytest

from flows import sweep
from paddleship.cli import run_tables
from paddleship.containers import image
from paddleship.errors import BadInput, GateFailed
from paddleship.execution import workspace
from paddleship.lineage.release import RUN_LABEL
from paddleship.orchestration import terminal
from paddleship.orchestration.sweep_params import SweepParams
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped
from paddleship.servers.local_state import Local
from paddleship.tracking import runs as tracked
from paddleship.tracking.client import connect
from paddleship.tracking.run import Tracker
from tests.flows.helpers import PROGRAM, git


@pytest.fixture
def stored(toy, reviews_params, monkeypatch):
    """Three runs of the toy, the second with params of its own and the third refused by a gate; and how to see them."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    local = Local(toy)
    for number, (epochs, failure) in enumerate([(8, None), (9, None), (8, GateFailed("x is 3"))]):
        tags = {"mlflow.runName": f"run-{number}", "prefect_flow_run": f"0000-{number}-abcdefg{number}", "checkout": local.identity}
        values = reviews_params({"train": {"epochs": epochs}})
        tracker = Tracker.start(values, tracking_uri=local.tracking_uri(), artifact_root=local.artifact_root, spool=local.spool, tags=tags)
        tracker.log_source(toy, values.code)
        tracker.finish(failure)
        git(toy, "update-ref", f"refs/exps/aa/bb/{workspace.experiment(tags['prefect_flow_run'])}", "HEAD")
    return toy, local


def command(toy, *arguments):
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run([PROGRAM, "runs", *arguments], cwd=toy, env=plain, capture_output=True, text=True, check=False)


def test_the_newest_run_comes_first_with_how_it_ended(stored):
    found = tracked.find(stored[1].tracking_uri())
    assert [(run.name, run.outcome) for run in found] == [("run-2", "GateFailed"), ("run-1", "done"), ("run-0", "done")]
    assert {run.model for run in found} == {"reviews"}


def test_a_run_is_found_by_its_name_or_the_beginning_of_an_id(stored):
    found = tracked.find(stored[1].tracking_uri())
    assert tracked.named(found, "run-1").flow_run == "0000-1-abcdefg1"
    assert tracked.named(found, found[0].run_id[:8]) == found[0]
    assert tracked.named(found, "0000-2") == found[0]
    unnamed = replace(found[0], name="reviews: epochs=9 (calm-otter)")
    assert tracked.named([unnamed], "calm-otter") == unnamed
    with pytest.raises(BadInput, match=r"there is no run 'run-9' \(did you mean 'run-"):
        tracked.named(found, "run-9")


def test_the_table_has_the_score_and_the_stage_that_refused(stored):
    found = tracked.find(stored[1].tracking_uri())
    tags = {**found[0].tags, "failure": "train: validation_accuracy is 0.7"}
    one = replace(found[0], metrics={"train/validation_accuracy": 0.875, "train/validation_loss": 0.4}, tags=tags)
    assert (cells(one)["validation score"], cells(one)["outcome"]) == ("0.8750", "GateFailed: train")
    assert cells(replace(one, metrics={"train/validation_accuracy": 0.99999}))["validation score"] == "0.99999", "which is not 1"


def test_the_score_of_a_run_is_that_of_the_validation_rows_and_one_of_the_test_rows_is_named_so(stored):
    metrics = {"train/validation_accuracy": 0.81, "train/test_accuracy": 0.79, "train/test_macro_f1": 0.5, "train/validation_loss": 2.0}
    one = replace(tracked.find(stored[1].tracking_uri())[0], metrics=metrics)
    shown = cells(one)
    assert (shown["validation score"], shown["test score"]) == ("0.8100", "0.7900")
    assert "score" not in shown
    rows = facts(one)
    assert (rows["validation accuracy"], rows["test accuracy"]) == ("0.8100", "0.7900")
    unlabelled = cells(replace(one, metrics={}))
    assert (unlabelled["validation score"], unlabelled["test score"]) == ("–", "–")


def facts(run):
    """The rows of the table of one run, by name."""
    names, values = ([str(cell) for cell in column.cells] for column in run_tables.details(run, None, None).columns)
    return dict(zip(names, values, strict=True))


def cells(run, others=(), releases=None):
    """The cells of a run in the table, by column."""
    return {str(column.header): str(next(iter(column.cells))) for column in run_tables.table([run, *others], releases or {}).columns}


def test_the_table_has_the_params_in_which_the_runs_of_a_model_differ(stored):
    found = tracked.find(stored[1].tracking_uri())
    assert [cells(run, found)["params"] for run in found] == ["epochs=8", "epochs=9", "epochs=8"]
    assert cells(found[0], [found[2]])["params"] == "–"
    assert cells(found[0], [replace(found[1], model="another")])["params"] == "–"


def test_a_speedup_that_is_not_valid_is_marked(stored):
    (run, *_) = tracked.find(stored[1].tracking_uri())
    disturbed = replace(run, metrics={"benchmark/speedup": 9.1}, tags={**run.tags, "benchmark_valid": "False"})
    assert "9.1× (not valid)" in [str(cell) for column in run_tables.table([disturbed], {}).columns for cell in column.cells]


def test_a_store_that_mlflow_does_not_know_is_unavailable(stored, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "foo://bar")
    done = command(stored[0], "list")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert "foo://bar is no address of an MLflow: correct MLFLOW_TRACKING_URI" in done.stderr


def test_a_long_name_is_never_cut_and_wraps_at_a_terminal(stored, capsys, monkeypatch):
    (found, *_) = tracked.find(stored[1].tracking_uri())
    name = "sensor: width=8, features=6, events=40, classes=4, epochs=4, learning_rate=0.01 (calm-otter)"
    table = run_tables.table([replace(found, name=name), found], {})
    assert [str(cell) for cell in table.columns[0].cells] == [name, found.name]
    monkeypatch.setenv("COLUMNS", "150")
    terminal.show(table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert all(word in printed for word in ("learning_rate", "calm-otter"))


@pytest.mark.spawned
def test_the_runs_are_a_table_on_the_terminal(stored):
    listed = command(stored[0], "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.index("run-2") < listed.stdout.index("run-0")
    assert all("reviews" in line for line in listed.stdout.splitlines()[1:]), "one line for each run in a pipe"
    refused = command(stored[0], "list", "--limit", "0")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--limit must be at least 1 (got 0)" in refused.stderr


def test_a_run_is_shown_with_the_reason_of_its_end(stored):
    shown = command(stored[0], "show", "run-2")
    assert shown.returncode == 0, shown.stderr
    assert "x is 3" in shown.stdout
    assert command(stored[0], "show", "nobody").returncode == 2
    changed = command(stored[0], "show", "run-1")
    assert "9 (8 in the run before of this model, run-0)" in changed.stdout
    assert "train.epochs" not in command(stored[0], "show", "run-0").stdout, "no run came before it"


def test_two_runs_are_compared_on_the_terminal_with_or_without_the_rows_that_are_equal(stored):
    differing, everything = command(stored[0], "compare", "run-0", "run-1"), command(stored[0], "compare", "run-0", "run-1", "--all")
    assert (differing.returncode, everything.returncode) == (0, 0), differing.stderr + everything.stderr
    assert re.search(r"train\.epochs +8 +9", differing.stdout)
    assert "equal rows are left out: --all prints them" in differing.stdout
    assert "equal rows are left out" not in everything.stdout
    assert len(everything.stdout.splitlines()) > len(differing.stdout.splitlines())


def test_the_parent_run_of_a_sweep_is_not_compared_and_its_variants_are_named(stored):
    toy, local = stored
    newest, *variants = tracked.find(local.tracking_uri())
    connect(local.tracking_uri()).set_tag(newest.run_id, "sweep", newest.name)
    for arguments in ((newest.name, variants[0].name), (variants[0].name, newest.name, "--html", "page.html")):
        alone = command(toy, "compare", *arguments)
        assert alone.returncode == 2, alone.stdout
        assert "'run-2' is the parent run of a sweep" in alone.stderr
        assert "compare runs of its variants, which `paddleship runs list` shows" in alone.stderr
    for number, run in enumerate(reversed(variants), 1):
        connect(local.tracking_uri()).update_run(run.run_id, name=f"epochs={number} (run-2 {number})")
        tracked.link_variant(local.tracking_uri(), run, sweep="run-2", parent=newest.run_id, label=f"epochs={number}")
    refused = command(toy, "compare", newest.name, "run-2 1")
    assert refused.stderr.endswith("compare its variants with `paddleship runs compare 'run-2 1' 'run-2 2'`\n"), refused.stderr
    assert not (toy / "page.html").exists()
    assert command(toy, "compare", "run-2 1", "run-2 2").returncode == 0, "the command that it names"


def test_the_run_that_serves_is_named_with_its_version_and_image_by_the_ledger(stored):
    toy, local = stored
    found = tracked.find(local.tracking_uri())
    mlflow = connect(local.tracking_uri())
    mlflow.create_registered_model("reviews")
    for number, run in enumerate(found[:2]):
        tags = {"image": f"paddleship/reviews:{number}", "image_id": f"sha256:{number}"}
        mlflow.create_model_version("reviews", f"runs:/{run.run_id}/model", run.run_id, tags=tags)
    mlflow.set_tag(found[2].run_id, "image_id", "sha256:1")
    ledger = Ledger(toy / ".paddleship" / "ledger.jsonl", "reviews")
    for version, target in (("2", "shop at 127.0.0.1:80"), ("1", None)):
        image_id = f"sha256:{int(version) - 1}"
        shipped = Shipped(model="reviews", version=version, image="x", image_id=image_id, candidate_digest="x")
        ledger.append(Entry(event=Event.SERVING, action="promote", shipped=shipped, why="better", target=target))
    listed = [line for line in command(toy, "list").stdout.splitlines() if "run-" in line]
    assert "version 1, champion" in listed[0]
    assert "version 2, serves as shop at 127.0.0.1:80" in listed[1]
    assert "version 2, serves as shop at 127.0.0.1:80" in listed[2], "it made the same image"
    shown = " ".join(command(toy, "show", "run-1").stdout.split())
    assert "image paddleship/reviews:1 version version 2 serves serves as shop at 127.0.0.1:80" in shown


def test_a_ledger_that_cannot_be_read_leaves_the_table_and_is_named(stored):
    (stored[0] / ".paddleship" / "ledger.jsonl").write_text("{}\n")
    connect(stored[1].tracking_uri()).create_registered_model("reviews")
    (run, *_) = tracked.find(stored[1].tracking_uri())
    connect(stored[1].tracking_uri()).create_model_version("reviews", "runs:/x/model", run.run_id)
    listed = command(stored[0], "list")
    assert listed.returncode == 0
    assert "warning: not known which run serves: line 1 of the ledger" in listed.stderr
    assert "run-2" in listed.stdout


def test_pruning_keeps_the_newest_and_says_what_goes_and_a_dry_run_leaves_everything(stored):
    toy, local = stored
    told = []
    run_tables.prune(toy, local, keep=1, everyone=False, cache=False, dry_run=True, say=told.append)
    assert sum(line.startswith("would remove the run") for line in told) == 2
    assert len(tracked.find(local.tracking_uri())) == 3
    artifacts = [run.artifacts for run in tracked.find(local.tracking_uri())]
    run_tables.prune(toy, local, keep=1, everyone=False, cache=False, dry_run=False, say=told.append)
    assert [run.name for run in tracked.find(local.tracking_uri())] == ["run-2"]
    assert [folder.exists() for folder in artifacts] == [True, False, False]
    assert git(toy, "for-each-ref", "--format=%(refname)", "refs/exps").split() == ["refs/exps/aa/bb/run-abcdefg2"]


def test_pruning_leaves_the_runs_of_other_checkouts_alone_unless_it_is_for_everyone(stored):
    toy, local = stored
    (newest, *_) = tracked.find(local.tracking_uri())
    connect(local.tracking_uri()).set_tag(newest.run_id, "checkout", "another-machine:/work")
    told = []
    run_tables.prune(toy, local, keep=0, everyone=False, cache=False, dry_run=False, say=told.append)
    assert [run.name for run in tracked.find(local.tracking_uri())] == ["run-2"]
    assert told[0] == "left alone: 1 of other checkouts (--everyone: remove those too)"
    run_tables.prune(toy, local, keep=0, everyone=True, cache=False, dry_run=False, say=told.append)
    assert tracked.find(local.tracking_uri()) == []


def test_the_run_of_a_sweep_of_this_checkout_is_pruned_as_one_of_this_checkout(stored, reviews_params, monkeypatch):
    toy, local = stored
    sent = {}

    def begin(_values, *, tags, **_settings):
        sent.update(tags)
        raise BadInput("far enough")

    monkeypatch.setattr(sweep.Tracker, "start", begin)
    monkeypatch.setattr(sweep.pending_changes, "version_of", lambda *_arguments, **_settings: "0" * 64)
    monkeypatch.setattr(sweep.run_names, "set_name", lambda description: sent.update(name=description))
    values = reviews_params({"sweep": {"space": {"train.epochs": [1, 2]}}})
    with pytest.raises(BadInput, match="far enough"):
        sweep._sweep(toy, SweepParams({}, values, git(toy, "rev-parse", "HEAD").strip()), None)
    assert sent["checkout"] == local.identity
    assert re.fullmatch(r"sweep reviews-[0-9a-f]+ over epochs", sent["name"])


def test_without_an_mlflow_that_answers_the_commands_say_so(stored, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:secret@127.0.0.1:9")
    for arguments in (["list"], ["show", "run-1"], ["open", "run-1"], ["prune"]):
        done = command(stored[0], *arguments)
        assert done.returncode == 4, done.stderr
        assert "error: MLflow at http://127.0.0.1:9 does not answer" in done.stderr
        assert "secret" not in done.stderr


def test_the_page_of_a_run_needs_a_server(stored):
    done = command(stored[0], "open", "run-1")
    assert done.returncode == 2
    assert done.stderr == "error: no MLflow server shows the pages of this checkout: run `make ui`\n"
    (run, *_) = tracked.find(stored[1].tracking_uri())
    page = tracked.address("http://ada:secret@mlflow.example:5000", run)
    assert page.startswith(f"http://mlflow.example:5000/#/experiments/{run.experiment_id}/runs/{run.run_id}")


def test_a_run_that_made_an_image_stays_while_the_engine_cannot_be_asked(stored):
    local = stored[1]
    found = tracked.find(local.tracking_uri())
    told = []
    withimage = [replace(run, metrics={"package/image_bytes": 1.0}) for run in found[:1]] + found[1:]
    assert run_tables._prune_images(withimage, set(), dry_run=False, say=told.append) == {found[0].run_id}
    assert "no Docker engine is reachable" in told[0]


@pytest.fixture
def images(stored, engine, monkeypatch):
    """An image of each of the three runs, newest run first."""
    monkeypatch.delenv("DOCKER_HOST")  # that of `stored` leads nowhere
    monkeypatch.setenv("DOCKER_HOST", image.host_of(engine))
    made = []
    for run in tracked.find(stored[1].tracking_uri()):
        recipe = io.BytesIO(f"FROM python:3.11-slim\nLABEL {RUN_LABEL}={run.run_id}\n".encode())
        made.append(engine.images.build(fileobj=recipe, rm=True, tag=f"paddleship/test-prune:{run.run_id}")[0])
    yield made
    for one in made:
        if image.exists(engine, one.id):
            engine.images.remove(one.id, force=True)


@pytest.mark.engine
def test_pruning_removes_the_images_of_old_runs_and_keeps_one_that_a_container_uses_with_its_run(stored, images, engine):
    told = []
    container = engine.containers.create(images[1].id)
    try:
        run_tables.prune(*stored, keep=1, everyone=False, cache=False, dry_run=True, say=told.append)
        assert [image.exists(engine, one.id) for one in images] == [True, True, True]
        run_tables.prune(*stored, keep=1, everyone=False, cache=False, dry_run=False, say=told.append)
    finally:
        image.remove_container(container)
    assert [image.exists(engine, one.id) for one in images] == [True, True, False], told
    assert [run.name for run in tracked.find(stored[1].tracking_uri())] == ["run-2", "run-1"]
    (kept,) = {line for line in told if "are kept: " in line}
    assert kept.startswith(f"the image {images[1].tags[0]} and its run")
    assert sum(line.startswith(f"removed the image {images[2].tags[0]}: ") for line in told) == 1


def test_a_run_that_a_model_version_comes_from_stays(stored, monkeypatch):
    toy, local = stored
    oldest = tracked.find(local.tracking_uri())[-1]
    monkeypatch.setattr(tracked, "registered", lambda _uri: tracked.Registered({oldest.run_id}, set()))
    run_tables.prune(toy, local, keep=0, everyone=False, cache=False, dry_run=False, say=lambda _line: None)
    assert [run.name for run in tracked.find(local.tracking_uri())] == ["run-0"]


def test_a_run_whose_candidates_a_newer_run_points_to_stays(stored):
    toy, local = stored
    newest, _, oldest = tracked.find(local.tracking_uri())
    connect(local.tracking_uri()).set_tag(newest.run_id, "candidates_of", oldest.run_id)
    run_tables.prune(toy, local, keep=1, everyone=False, cache=False, dry_run=False, say=lambda _line: None)
    assert [run.name for run in tracked.find(local.tracking_uri())] == ["run-2", "run-0"]


def test_two_runs_are_compared_on_the_command_line(stored):
    names = [run.name for run in tracked.find(stored[1].tracking_uri())]
    done = command(stored[0], "compare", *names[:2])
    assert done.returncode == 0, done.stderr
    assert "equal rows are left out: --all prints them" in done.stdout
    assert "equal rows" not in command(stored[0], "compare", *names[:2], "--all").stdout
