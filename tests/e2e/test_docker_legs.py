"""Stages of a run in containers: a Docker pool, Prefect's Docker worker, a real engine and image, and remotes that want credentials."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddleship.containers import image
from paddleship.servers.background import free_port
from tests.e2e.machines import served
from tests.flows.helpers import PROGRAM, REPOSITORY, git, prefect_api, register_pool, wait_for
from tests.flows.test_pipeline import row_of

POOL = "containers"
KEY, SECRET = "docker-legs", "of-a-test-only"
BIN = Path(sys.executable).parent

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def stack_image(engine):
    settings = os.environ | {"DOCKER_HOST": image.host_of(engine), "PYTHON": sys.executable}
    done = subprocess.run([REPOSITORY / "infra/stack_image.sh"], env=settings, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def remotes(tmp_path_factory):
    """A git server and an S3 server on loopback: their ports and the folder of the first one's repositories."""
    base = tmp_path_factory.mktemp("remotes")
    git_port, s3_port = free_port(), free_port()
    (base / "repositories").mkdir()
    (base / "buckets/data").mkdir(parents=True)
    daemon = f"git daemon --export-all --enable=receive-pack --base-path={base / 'repositories'} --listen=127.0.0.1 --port={git_port}"
    store = f"{BIN / 'nanio'} serve --data-dir {base / 'buckets'} --host 127.0.0.1 --port {s3_port}"
    with (
        served(base / "git", daemon.split(), address=("127.0.0.1", git_port)),
        served(base / "s3", store.split(), address=("127.0.0.1", s3_port), NANIO_ACCESS_KEY=KEY, NANIO_SECRET_KEY=SECRET),
    ):
        yield git_port, s3_port, base / "repositories"


@pytest.fixture(scope="module")
def checkout(linear_checkout_of, remotes):
    git_port, s3_port, repositories = remotes
    checkout = linear_checkout_of("docker-legs", optimize={"candidates": ["paddle", "onnxruntime"]})
    storage = f"url = s3://data/dvc\nendpointurl = http://127.0.0.1:{s3_port}\nregion = us-east-1\n"
    (checkout / ".dvc/config").write_text(f"[core]\nremote = storage\nanalytics = false\n['remote \"storage\"']\n{storage}")
    git(checkout, "commit", "-qam", "a remote that containers reach")
    git(checkout, "clone", "--quiet", "--bare", str(checkout), str(repositories / "origin.git"))
    git(checkout, "remote", "add", "origin", f"git://127.0.0.1:{git_port}/origin.git")
    return checkout


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    """The file with the keys of the S3 server, readable for the user of the containers."""
    path = tmp_path_factory.mktemp("credentials") / "credentials"
    path.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    path.chmod(0o444)
    return path


@pytest.fixture(scope="module")
def environment(prefect_url, engine, tmp_path_factory):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    home = str(tmp_path_factory.mktemp("prefect-home"))
    return kept | keys | {"PREFECT_API_URL": prefect_url, "PREFECT_HOME": home, "DOCKER_HOST": image.host_of(engine), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def worker(checkout, stack_image, credentials, environment):
    """The log of a worker of a registered pool."""
    branch = git(checkout, "symbolic-ref", "--short", "HEAD").strip()
    variables = f'{{"volumes": ["{credentials}:/etc/paddleship/aws/credentials:ro"], "memory_limit": "4g"}}'
    where = {"GIT_URL": git(checkout, "remote", "get-url", "origin").strip(), "BRANCH": branch}
    done = register_pool(environment, "docker", POOL, stack_image, variables, **where)
    assert done.returncode == 0, done.stdout + done.stderr
    log = checkout / ".paddleship/worker.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as stream:
        process = subprocess.Popen([PROGRAM, "worker", "--pool", POOL], cwd=checkout, env=environment, stdout=stream, stderr=stream)
    wait_for(lambda: "started!" in log.read_text() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    yield log
    process.terminate()
    process.wait(300)


def containers(engine, stack_image):
    """Those of flow runs; a stack that another test starts has the same image. The engine may remove one while they are read."""
    return engine.containers.list(all=True, ignore_removed=True, filters={"ancestor": stack_image, "label": "io.prefect.flow-run-id"})


def test_stages_run_in_containers_and_leave_none(checkout, worker, engine, stack_image, environment, prefect_url):
    command = [PROGRAM, "run", "--until", "verify", "--on", f"train={POOL}", "--on", f"verify={POOL}"]
    seen = []
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        wait_for(lambda: seen.extend(one.attrs for one in containers(engine, stack_image)) or seen or run.poll() is not None)
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 0, output + worker.read_text()
    finished = subprocess.CompletedProcess((), 0, output)
    assert [row_of(stage, finished)[4] for stage in ("train", "verify")] == [f"({POOL})"] * 2
    (settings, limits) = (seen[0]["Config"], seen[0]["HostConfig"])
    assert settings["User"] == "10001:10001"
    assert (limits["CapDrop"], limits["ReadonlyRootfs"], limits["Memory"]) == (["ALL"], True, 4 << 30)
    assert SECRET not in str(seen)
    assert containers(engine, stack_image) == []
    deployment = prefect_api(prefect_url, f"deployments/name/run-stages/{POOL}")
    assert deployment["tags"] == ["stages", "docker"]
    assert SECRET not in str(deployment)


def test_a_container_that_the_engine_ends_is_a_leg_that_is_started_again(checkout, worker, engine, stack_image, environment, tmp_path):
    (tmp_path / "seed.yaml").write_text("seed: 5\n")
    command = [PROGRAM, "run", "--until", "train", "--on", f"train={POOL}", "--params", str(tmp_path / "seed.yaml")]
    with subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        (container,) = wait_for(lambda: [one for one in containers(engine, stack_image) if one.status == "running"])
        container.kill()
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 0, output + worker.read_text()
    assert f"the worker of '{POOL}' was lost in attempt 1 of 3" in output
    assert containers(engine, stack_image) == []
