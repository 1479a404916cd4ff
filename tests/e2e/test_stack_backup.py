"""Backup, remove, restore: what the stack's databases, object store and registry held is there again, in a stack with new passwords."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from paddleship.containers import image
from paddleship.servers.background import free_port
from tests.flows.helpers import REPOSITORY, prefect_api

NAME = f"paddleship-backup-{os.getpid()}"

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, engine):
    folder = tmp_path_factory.mktemp("backup")
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT", "STORE_PORT", "REGISTRY_PORT")}
    own = {"STACK_NAME": NAME, "STACK_SECRETS": str(folder / "secrets"), "DOCKER_HOST": image.host_of(engine), "PYTHON": sys.executable}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "PYTHONPATH"))}
    yield kept | ports | own | {"BACKUP": str(folder / "saved")}
    stack(kept | ports | own, "remove")


def stack(settings, *arguments):
    return subprocess.run(
        [REPOSITORY / "infra/stack.sh", *arguments], env=settings, capture_output=True, text=True, check=False, timeout=900
    )


def store(settings):
    lines = (Path(settings["STACK_SECRETS"]) / "store_credentials").read_text().splitlines()
    keys = dict(line.split(" = ") for line in lines if " = " in line)
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{settings['STORE_PORT']}", region_name="us-east-1", **keys)


def prefect(settings):
    return f"http://127.0.0.1:{settings['PREFECT_PORT']}/api"


def held(settings, engine):
    """What was put in: a flow and a run, an object, and the image of the registry by its digest."""
    import mlflow

    client = mlflow.MlflowClient(f"http://127.0.0.1:{settings['MLFLOW_PORT']}")
    (run,) = client.search_runs([client.get_experiment_by_name("kept").experiment_id])
    pulled = engine.images.get_registry_data(f"127.0.0.1:{settings['REGISTRY_PORT']}/base:kept")
    return {
        "flows": [one["name"] for one in prefect_api(prefect(settings), "flows/filter", {"flows": {"name": {"any_": ["kept"]}}})],
        "metrics": run.data.metrics,
        "object": store(settings).get_object(Bucket="dvc", Key="folder/kept")["Body"].read(),
        "image": pulled.id,
    }


def put(settings, engine):
    import mlflow

    prefect_api(prefect(settings), "flows/", {"name": "kept"})
    client = mlflow.MlflowClient(f"http://127.0.0.1:{settings['MLFLOW_PORT']}")
    run = client.create_run(client.create_experiment("kept"))
    client.log_metric(run.info.run_id, "score", 0.5)
    store(settings).put_object(Bucket="dvc", Key="folder/kept", Body=b"bytes")
    name = f"127.0.0.1:{settings['REGISTRY_PORT']}/base:kept"
    engine.images.get("python:3.11-slim").tag(name)
    engine.images.push(name)
    engine.images.remove(name)


def test_what_was_backed_up_is_there_after_remove_and_restore(settings, engine):
    saved = Path(settings["BACKUP"])
    none = stack(settings, "backup", str(saved))
    assert (none.returncode, "is not running, or not healthy" in none.stderr) == (4, True), none.stderr
    up = stack(settings, "up")
    assert up.returncode == 0, up.stderr
    put(settings, engine)
    before = held(settings, engine)
    done = stack(settings, "backup", str(saved))
    assert done.returncode == 0, done.stderr
    assert held(settings, engine) == before, "the services run again"
    assert saved.stat().st_mode & 0o077 == 0
    full = stack(settings, "restore", str(saved))
    assert (full.returncode, "has data, which restore would mix" in full.stderr) == (2, True)
    stack(settings, "remove")
    shutil.rmtree(settings["STACK_SECRETS"])  # the passwords of a new stack are other ones
    again = stack(settings, "restore", str(saved))
    assert again.returncode == 0, again.stderr
    assert held(settings, engine) == before


def test_a_backup_that_changed_or_is_not_whole_is_refused_before_anything_is_made(settings, tmp_path):
    for name in ("prefect.dump", "mlflow.dump", "objects.tar", "images.tar"):
        (tmp_path / name).write_text(name)
    missing = stack(settings, "restore", str(tmp_path))
    assert (missing.returncode, "SHA256SUMS does not name prefect.dump" in missing.stderr) == (2, True)
    names = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / "SHA256SUMS").write_text(
        subprocess.run(["sha256sum", *names], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )
    (tmp_path / "objects.tar").write_text("changed")
    changed = stack(settings, "restore", str(tmp_path))
    assert changed.returncode == 2
    assert "objects.tar: FAILED" in changed.stderr
    assert "is not as it was written" in changed.stderr
