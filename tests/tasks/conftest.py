import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import canaries

REPOSITORY = Path(__file__).parents[2]
REPOSITORY_NAME = f"paddleship/test-linear-{os.getpid()}"


@pytest.fixture(autouse=True)
def _forked(warm_commands):
    """Let the stages that tests start be forked, in the short form of the suite."""


@pytest.fixture(scope="session")
def engine(engine):
    """The same, without the images of these tests when they are over."""
    yield engine
    for found in engine.images.list(name=REPOSITORY_NAME):
        engine.images.remove(found.id, force=True)


@pytest.fixture(scope="session")
def benchmarked(linear_benchmarked, tmp_path_factory):
    """A checkout of the linear example after everything before packaging."""
    checkout = tmp_path_factory.mktemp("benchmarked") / "checkout"
    subprocess.run(["cp", "-a", str(linear_benchmarked), str(checkout)], check=True)
    edit_params(checkout, package={"repository": REPOSITORY_NAME})
    return checkout


@pytest.fixture(scope="session")
def packaged(benchmarked, stage, engine):
    """The same checkout after `package`, with the run ids of a flow, and its receipt."""
    flow = {"MLFLOW_RUN_ID": "mlflow-1", "PADDLESHIP_FLOW_RUN_ID": "flow-1", "MLFLOW_TRACKING_URI": canaries.address(1)}
    done = stage(benchmarked, "package", **flow)
    assert done.returncode == 0, done.stderr
    receipt = json.loads((benchmarked / "image.json").read_text())
    # An image without a tag goes with the last one that was built on it: this one keeps a tag that no later build takes.
    engine.images.get(receipt["image_id"]).tag(REPOSITORY_NAME, "packaged")
    return benchmarked, receipt


@pytest.fixture(scope="session")
def won(benchmarked, stage, tmp_path_factory):
    """A copy of it whose only candidate is the eager model, after the benchmark."""
    checkout = tmp_path_factory.mktemp("won") / "checkout"
    subprocess.run(["cp", "-a", str(benchmarked), str(checkout)], check=True)
    edit_params(checkout, optimize={"candidates": ["paddle-eager"]})
    for name in ("optimize", "verify", "benchmark"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    return checkout


@pytest.fixture(scope="session")
def several(packaged, stage, engine, tmp_path_factory):
    """A checkout whose image has two processes and both transports, and its receipt."""
    from paddleship.containers import image

    checkout = tmp_path_factory.mktemp("several") / "checkout"
    subprocess.run(["cp", "-a", str(packaged[0]), str(checkout)], check=True)
    edit_params(checkout, package={"transports": ["http", "grpc"], "processes": 2}, accept={"load_requests": 140})
    done = stage(checkout, "package")
    assert done.returncode == 0, done.stderr
    receipt = json.loads((checkout / "image.json").read_text())
    yield checkout, receipt
    image.untag(engine, receipt["image_id"], receipt["image"], receipt["unaccepted"])


@pytest.fixture
def copy_of(tmp_path):
    """A copy of a checkout for one test, with changed params."""

    def copy(checkout, **sections):
        subprocess.run(["cp", "-a", str(checkout), str(tmp_path / "checkout")], check=True)
        edit_params(tmp_path / "checkout", **sections)
        return tmp_path / "checkout"

    return copy


def edit_params(checkout, **sections):
    path = checkout / "params.yaml"
    values = yaml.safe_load(path.read_text())
    for section, keys in sections.items():
        values[section] |= keys
    path.write_text(yaml.safe_dump(values, sort_keys=False))
