"""The Docker work pool: the real Dockerfile, engine, worker, servers. The packages are mounted: an image with them takes minutes."""

import os
import shutil
import signal
import subprocess
import sysconfig
import uuid

import pytest
import yaml

from paddleship.containers import image
from paddleship.orchestration import deployment
from tests.flows.helpers import PREFECT, PROGRAM, mlflow_runs

APP = ("paddleship", "tasks", "flows", "examples", "params.yaml", "pyproject.toml")

pytestmark = [pytest.mark.slow, pytest.mark.engine]


@pytest.fixture(scope="module")
def checkout(linear_checkout_of, with_tables):
    """A checkout whose deployment asks for an image of its own, with this environment's packages in it."""
    checkout = with_tables(linear_checkout_of("docker-pool"))
    path = checkout / "prefect.yaml"
    values = yaml.safe_load(path.read_text())
    (in_docker,) = [one for one in values["deployments"] if one["work_pool"]["name"] == "docker"]
    variables = in_docker["work_pool"]["job_variables"]
    variables["image"] = f"paddleship/test-train:{uuid.uuid4().hex}"
    variables["volumes"].append(f"{sysconfig.get_path('purelib')}:/opt/site:ro")
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return checkout


@pytest.fixture(scope="module")
def name(checkout):
    """Of the image that the deployment asks for."""
    (name,) = deployment._images(checkout, "docker")
    return name


@pytest.fixture(scope="module")
def environment(checkout, free_port):
    """Of a user who has exported nothing but two ports, and whose servers run."""
    ports = {"PREFECT_PORT": str(free_port()), "MLFLOW_PORT": str(free_port())}
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "MLFLOW"))} | ports
    subprocess.run([PROGRAM, "ui"], cwd=checkout, env=plain, capture_output=True, check=True)
    yield plain
    subprocess.run([PROGRAM, "stop"], cwd=checkout, env=plain, capture_output=True, check=True)


@pytest.fixture
def training_image(engine, checkout, name, tmp_path):
    """The training image without packages; its containers go with it."""
    for folder in ("site", "lib", "app"):
        (tmp_path / "rootfs" / folder).mkdir(parents=True)
    for part in APP:
        copy = shutil.copytree if (checkout / part).is_dir() else shutil.copy
        copy(checkout / part, tmp_path / "rootfs/app" / part)
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    shutil.copy(next(line.split()[-1] for line in listed.splitlines() if "libgomp.so.1 " in line), tmp_path / "rootfs/lib")
    shutil.copy(checkout / "docker/train.Dockerfile", tmp_path / "Dockerfile")
    image.build(engine, tmp_path, base_image="python:3.11-slim", labels={}).tag(name)
    yield name
    for container in engine.containers.list(all=True, filters={"ancestor": name}):
        container.remove(force=True)
    engine.images.remove(name, force=True)


@pytest.mark.long  # the comparison, a worker and containers with these limits each have tests of their own
def test_a_run_in_the_training_image_leaves_its_page_and_runs_in_mlflow(engine, checkout, environment, training_image):
    with (checkout / ".paddleship/worker.log").open("w") as log:
        command = [PROGRAM, "worker", "--pool", "docker"]
        worker = subprocess.Popen(command, cwd=checkout, env=environment, stdout=log, stderr=log, start_new_session=True)
    parameters = {"networks": '["linear"]', "modes": '["paddle-static"]', "rounds": "2", "threads": "1"}
    given = [word for key, value in parameters.items() for word in ("--param", f"{key}={value}")]
    command = [PREFECT, "deployment", "run", "compare-graph-modes/docker", "--watch", "--watch-timeout", "240", *given]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    worker.send_signal(signal.SIGTERM)
    worker.wait(300)
    assert done.returncode == 0, done.stdout + done.stderr + (checkout / ".paddleship/worker.log").read_text()
    assert [status for status, _ in mlflow_runs(checkout)] == ["FINISHED"] * 3
    (page,) = (checkout / ".paddleship/artifacts").rglob("reports/compare-graph-modes.md")
    assert "### Static trains 15–30% faster" in page.read_text()
    (container,) = engine.containers.list(all=True, filters={"ancestor": training_image})
    assert container.attrs["Config"]["User"] == "10001:10001"
    assert container.attrs["HostConfig"]["CapDrop"] == ["ALL"]
    assert (checkout / "data").stat().st_uid == os.getuid()
