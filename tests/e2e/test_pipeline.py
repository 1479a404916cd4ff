"""The whole way on the quick example, in one checkout: first run, nothing changed, what makes a stage stale, a lost image, a
fresh clone, the way back."""

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

import grimp
import pytest
from dvc.repo import Repo

from tests import canaries, stage_code

pytestmark = [pytest.mark.slow, pytest.mark.engine]


RECORDER = Path(__file__).parent / "recorder"


def run(folder, *arguments, module="paddleship.cli.main", path=(), **more):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), str(folder)]), **more}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def commit(folder, message):
    for command in (["add", "-A"], ["-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", message]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def hows(done):
    """How each stage went, from the table at the end."""
    words = ("ran", "unchanged", "restored", "failed")
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) > 3 and row[2] in words}


@pytest.fixture(scope="module")
def shipped(linear_checkout_of, with_tables, warm_commands):
    """A checkout after its first run, with dvc.lock committed."""
    checkout = with_tables(linear_checkout_of("shipped", optimize={"candidates": ["paddle", "onnxruntime"]}))
    (checkout.parent / "recorded").mkdir()
    credentials, remote = canaries.environment(checkout.parent), canaries.of_remote(checkout)
    done = run(checkout, "run", path=[RECORDER], RECORDED_TO=str(checkout.parent / "recorded"), **credentials)
    remote.unlink()
    (checkout.parent / "docker/config.json").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert canaries.in_bytes((done.stdout + done.stderr).encode()) == []
    assert set(hows(done).values()) == {"ran"}
    commit(checkout, "ship")
    return checkout


def test_the_release_leads_from_the_image_back_to_commit_data_and_run(shipped):
    release = json.loads((shipped / "release.json").read_text())
    assert release["accepted"]
    assert release["acceptance"]["http_noise_ratio"] <= 8
    traced = run(shipped, "trace", release["image"], "--json")
    assert traced.returncode == 0, traced.stderr
    lineage = json.loads(traced.stdout)
    schema = json.loads((shipped / "data/prepared/schema.json").read_text())
    assert lineage["data_sha256"] == schema["data_sha256"]
    assert len(lineage["git_commit"]) == 40
    assert lineage["mlflow_run_id"]
    assert lineage["prefect_flow_run_id"]
    assert release["image"] in run(shipped, "trace", release["image"]).stdout


def test_no_credential_is_left_in_files_databases_and_image(shipped, engine):
    assert (shipped / ".paddleship/prefect/prefect.db").exists()
    assert (shipped / ".paddleship/mlflow.db").exists()
    assert canaries.in_folder(shipped.parent) == []
    assert canaries.in_image(engine, json.loads((shipped / "release.json").read_text())["image_id"]) == []


def test_a_second_run_repeats_nothing_and_says_so(shipped):
    done = run(shipped, "run")
    assert done.returncode == 0, done.stderr
    assert set(hows(done).values()) == {"unchanged"}
    assert "Nothing changed since the last run" in done.stdout


@pytest.fixture(scope="module")
def modules_run(shipped):
    """The files of ours that each stage and its children imported in that run."""
    found = {}
    for path in (shipped.parent / "recorded").iterdir():
        names = {Path(*name.split(".")) for name in path.read_text().split()}
        files = {file for name in names for file in (name.with_suffix(".py"), name / "__init__.py") if _does_something(shipped / file)}
        found[path.name] = files
    return found


def _does_something(path):
    """Whether a module holds more than its docstring."""
    return path.is_file() and len(ast.parse(path.read_text()).body) > 1


def stale(checkout):
    """The stages that DVC would run again, as `dvc status` says."""
    with chdir(checkout), Repo() as repo:
        return set(repo.status()) - {"fingerprint"}


def file_of(checkout, place):
    """A module of this folder, or this module."""
    return checkout / place if place.suffix == ".py" else min((checkout / place).glob("*.py"))


@contextmanager
def edited(path, text=None):
    before = path.read_text()
    path.write_text(text or before + "\n# edited\n")
    try:
        yield
    finally:
        path.write_text(before)


def test_every_stage_goes_stale_with_what_it_ran_and_train_with_nothing_else(shipped, modules_run):
    assert set(modules_run) == {"prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept"}
    assert not stale(shipped)
    imports = grimp.build_graph("paddleship", "tasks", cache_dir=None, exclude_type_checking_imports=True)
    ran_in = defaultdict(set)  # which stages ran a module of this folder, or this file
    for stage, files in modules_run.items():
        for file in files - stage_code.left_out(imports, stage):
            ran_in[file.parent if stage_code.is_covered(file.parent, stage_code.deps(stage)) else file].add(stage)
    with ExitStack() as edits:
        for path in (shipped / "paddleship").rglob("*.py"):
            if not stage_code.is_covered(path.relative_to(shipped), stage_code.deps("train")):
                edits.enter_context(edited(path))
        assert "train" not in stale(shipped), "train does not depend on what was edited"
    with chdir(shipped), Repo() as repo, repo.lock:
        for place, stages in ran_in.items():
            with edited(file_of(shipped, place)):
                changed = {stage.name for stage in repo.index.stages if stage.name != "fingerprint" and stage.changed_deps()}
            assert stages <= changed, f"{place} was run by {stages}, its change makes {changed} stale"
            assert ("train" in changed) == ("train" in stages), f"{place}: train is {'stale' if 'train' in changed else 'left alone'}"
    assert not stale(shipped)


def test_another_version_of_a_runtime_makes_candidates_proof_and_image_stale_and_training_not(shipped, tmp_path):
    (tmp_path / "onnxruntime-0.0.1.dist-info").mkdir()
    (tmp_path / "onnxruntime-0.0.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 0.0.1\n")
    with edited(shipped / "environment.json"):
        done = run(shipped, module="tasks.fingerprint", path=[tmp_path])
        assert done.returncode == 0, done.stderr
        assert stale(shipped) == {"export", "optimize", "verify", "benchmark", "package"}
    assert not stale(shipped)


def test_another_machine_measures_again_and_does_nothing_else_again(shipped):
    with edited(shipped / "host.json", '{"processor": "another"}\n'):
        assert stale(shipped) == {"benchmark"}


@pytest.mark.long  # in a fresh clone of flows/test_ci only what changed runs
def test_a_fresh_clone_that_pulls_the_data_repeats_nothing(shipped, with_tables):
    clone = shipped.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(shipped), str(clone)], check=True)
    pulled = run(clone, "pull", module="dvc")
    assert pulled.returncode == 0, pulled.stderr
    done = run(with_tables(clone), "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(hows(done).values()) == {"unchanged"}


def test_without_an_engine_a_run_to_the_image_ends_before_its_first_stage(shipped, prefect_url):
    done = run(shipped, "run", "--again", "train", PREFECT_API_URL=prefect_url, DOCKER_HOST="unix:///no/engine.sock")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "error: no Docker engine is reachable (DOCKER_HOST is 'unix:///no/engine.sock'): run `make engine`" in done.stderr
    assert hows(done) == {}
    assert not stale(shipped)


def test_an_image_that_is_gone_from_the_engine_is_built_again(shipped, prefect_url):
    from paddleship.containers import image

    client = image.connect()
    client.images.remove(json.loads((shipped / "release.json").read_text())["image_id"], force=True)
    done = run(shipped, "run", "--until", "package", PREFECT_API_URL=prefect_url)
    assert done.returncode == 0, done.stdout + done.stderr
    went = hows(done)
    assert went["benchmark"] == "unchanged"
    assert went["package"] == "ran"


def test_dvc_alone_shows_metrics_params_and_experiments(shipped):
    metrics = run(shipped, "metrics", "show", "--json", module="dvc")
    assert "reports/benchmark.metrics.json" in metrics.stdout
    status = run(shipped, "status", "prepare", "train", module="dvc")
    assert "up to date" in status.stdout
