import subprocess
from pathlib import Path

import pytest
import yaml

from paddleship.config import params
from paddleship.system import locks

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session", autouse=True)
def _locks_of_its_own(tmp_path_factory):
    """The machine's locks in a folder of this session, so that it waits for no benchmark beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(locks.FOLDER, str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session")
def base_params():
    return yaml.safe_load((REPOSITORY / "params.yaml").read_text())


@pytest.fixture
def reviews_params(base_params):
    """The repository's params with an overlay."""
    return lambda overlay=None: params.parse(params.merge(base_params, overlay or {}))


@pytest.fixture(scope="session")
def checkout_of(tmp_path_factory):
    """Make a git checkout of this working tree, uncommitted work included, in a folder of its own."""

    def make(name):
        target = tmp_path_factory.mktemp(name) / "checkout"
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True, check=True)
        for path in filter(None, listed.stdout.decode().split("\0")):
            if (REPOSITORY / path).is_file():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes((REPOSITORY / path).read_bytes())
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "checkout"]):
            subprocess.run(["git", *command], cwd=target, check=True)
        return target

    return make


@pytest.fixture(scope="session")
def linear_checkout_of(checkout_of, base_params):
    """A checkout whose params.yaml is the linear example's, quick enough for tests."""

    def make(name):
        checkout = checkout_of(name)
        overlay = yaml.safe_load((checkout / "examples/linear/params.yaml").read_text())
        quick = {
            "train": {"epochs": 2},
            "optimize": {"candidates": ["paddle", "paddle-onednn", "onnxruntime"], "tune_seconds": 0},
            "verify": {"samples": 32, "max_batch": 8},
            "benchmark": {
                "batch_sizes": [1, 32],
                "concurrency": [],
                "starts": 1,
                "blocks": 4,
                "samples_per_block": 20,
                "max_seconds": 2,
                "max_busy_share": 1.0,  # other tests run beside it
            },
            "accept": {"load_requests": 50},
        }
        values = params.merge(params.merge(base_params, overlay), quick)
        (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        return checkout

    return make


@pytest.fixture(scope="session")
def engine():
    """A client of a real engine that has the base image; started by the same scripts that people use."""
    from tasks import image

    for command in (["infra/engine.sh", "start"], ["infra/base_image.sh", "python:3.11-slim"]):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if done.returncode == 4:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stderr
    client = image.connect()
    yield client
    client.close()
