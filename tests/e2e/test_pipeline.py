"""The whole way on the quick example, in one checkout: first run, nothing changed, a lost image, a fresh clone, the way back."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.engine]


def run(folder, *arguments, module="flows.cli"):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
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
def shipped(linear_checkout_of):
    """A checkout after its first run, with dvc.lock committed."""
    checkout = linear_checkout_of("shipped")
    done = run(checkout, "run")
    assert done.returncode == 0, done.stdout + done.stderr
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


def test_a_second_run_repeats_nothing_and_says_so(shipped):
    done = run(shipped, "run")
    assert done.returncode == 0, done.stderr
    assert set(hows(done).values()) == {"unchanged"}
    assert "Nothing changed since the last run" in done.stdout


def test_a_fresh_clone_that_pulls_the_data_repeats_nothing(shipped):
    clone = shipped.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(shipped), str(clone)], check=True)
    pulled = run(clone, "pull", module="dvc")
    assert pulled.returncode == 0, pulled.stderr
    done = run(clone, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(hows(done).values()) == {"unchanged"}


def test_an_image_that_is_gone_from_the_engine_is_built_again(shipped):
    from tasks import image

    client = image.connect()
    client.images.remove(json.loads((shipped / "release.json").read_text())["image_id"], force=True)
    done = run(shipped, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    went = hows(done)
    assert went["benchmark"] == "unchanged"
    assert went["package"] == went["accept"] == "ran"


def test_dvc_alone_shows_metrics_params_and_experiments(shipped):
    metrics = run(shipped, "metrics", "show", "--json", module="dvc")
    assert "reports/benchmark.metrics.json" in metrics.stdout
    status = run(shipped, "status", "prepare", "train", module="dvc")
    assert "up to date" in status.stdout
