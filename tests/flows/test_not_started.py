"""Whoever follows a flow run that does not begin learns the reason: its pool is paused, has no worker, or has one that is busy or lost."""

import os
import subprocess
import time
from uuid import uuid4

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from paddleship.orchestration import deployment, not_started
from paddleship.servers.local_state import Local
from tests.flows.helpers import PREFECT, PROGRAM, prefect_api, wait_for


@pytest.fixture
def pool(prefect_url):
    """A work pool without a worker, and what a deployment of it is called."""
    name = f"pool-{uuid4().hex[:8]}"
    prefect_api(prefect_url, "work_pools/", {"name": name, "type": "process", "base_job_template": {}})
    flow = prefect_api(prefect_url, "flows/", {"name": f"flow-of-{name}"})
    entry = {"name": name, "flow_id": flow["id"], "work_pool_name": name, "entrypoint": "flows/run_stages.py:run_stages"}
    prefect_api(prefect_url, "deployments/", {**entry, "enforce_parameter_schema": False})
    with temporary_settings({PREFECT_API_URL: prefect_url}):
        yield name


@pytest.fixture
def begun(pool, prefect_url):
    """A flow run of the deployment, for a worker to take."""
    (found,) = prefect_api(prefect_url, "deployments/filter", {"deployments": {"name": {"any_": [pool]}}})
    return prefect_api(prefect_url, f"deployments/{found['id']}/create_flow_run", {})["id"]


@pytest.fixture
def reason_of(monkeypatch):
    """The first thing that the command says of a flow run beyond its states."""

    def find(run, *, after_s=1):
        monkeypatch.setattr(not_started, "AFTER_S", after_s)
        lines = []
        deadline = time.monotonic() + 300
        deployment.last_state(run, say=lines.append, give_up=lambda: any(" " in line for line in lines) or time.monotonic() > deadline)
        return next(line for line in lines if " " in line)

    return find


@pytest.mark.slow
def test_a_run_that_no_worker_takes_is_reported_within_thirty_seconds_with_pool_and_command(begun, pool, reason_of):
    began = time.monotonic()
    reason = reason_of(begun, after_s=not_started.AFTER_S)
    assert time.monotonic() - began < 30
    assert reason == f"no worker of the pool '{pool}' is running: start one with `make worker POOL={pool}`"


def test_a_paused_pool_is_named_with_the_command_that_resumes_it(begun, pool, reason_of, prefect_url):
    command = [PREFECT, "work-pool", "pause", pool]
    subprocess.run(command, env={**os.environ, "PREFECT_API_URL": prefect_url}, check=True, capture_output=True)
    assert reason_of(begun) == f"the work pool '{pool}' is paused: `prefect work-pool resume {pool}`"


def test_a_worker_that_is_busy_is_not_reported_as_missing(begun, pool, reason_of, prefect_url):
    with get_client(sync_client=True) as client:
        client.send_worker_heartbeat(pool, "busy", 30)
    assert reason_of(begun).startswith(f"no worker of the pool '{pool}' has taken the run yet: its workers or the pool run as many as")


def test_a_run_whose_worker_was_lost_before_it_began_is_reported(begun, pool, reason_of, prefect_url):
    prefect_api(prefect_url, f"flow_runs/{begun}/set_state", {"state": {"type": "PENDING", "name": "Pending"}})
    assert reason_of(begun).startswith(f"a worker of the pool '{pool}' has taken the run and not begun it")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forked", pytest.param("spawned", marks=pytest.mark.spawned)])
def test_a_worker_starts_where_another_user_came_first(tmp_path, toy, environment, prefect_url, how):
    """Prefect's worker makes the folder `runner_storage` in the temporary folder, and cannot where that name is taken."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "runner_storage").write_text("of another user, which not even root can use as a folder")
    log, pool = tmp_path / "worker.log", f"pool-{uuid4().hex[:8]}"
    with log.open("w") as stream:
        worker = subprocess.Popen(
            [PROGRAM, "worker", "--pool", pool], cwd=toy, env={**environment, "TMPDIR": str(shared)}, stdout=stream, stderr=stream
        )
    try:
        wait_for(lambda: "started!" in log.read_text() or worker.poll() is not None)
        assert worker.poll() is None, log.read_text()
        assert (shared / f"paddleship-{os.getuid()}" / "runner_storage").is_dir()
    finally:
        worker.terminate()
        worker.wait(300)


def test_the_state_of_dvc_is_in_a_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("DVC_SITE_CACHE_DIR", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    Local(tmp_path).use()
    assert os.environ["DVC_SITE_CACHE_DIR"] == f"/var/tmp/paddleship-{os.getuid()}/dvc"  # noqa: S108 the user's own
