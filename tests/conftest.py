import gc
import multiprocessing
import os
import platform
import shutil
import socket
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import filelock
import psutil
import pytest
import yaml

from paddleship.config import loading
from paddleship.config.sections.promote import Target
from paddleship.image import python_version
from paddleship.servers import background
from paddleship.servers.local_state import Local
from paddleship.system import isolate, locks
from tests import warm, warm_command
from tests.hanging import pytest_runtest_protocol  # noqa: F401 hooks

REPOSITORY = Path(__file__).parents[1]
ORDER = (  # files that mostly wait apart from each other, the long ones of the library before the short ones
    *("paddleship/loadgen", "benchmarks", "e2e", "paddleship/shipped/serving", "flows", "paddleship/acceptance", "infra", "tasks"),
    *(f"paddleship/{name}" for name in ("doctor", "proof", "benchmark", "diagnosis", "conversion")),
)
WARM = (  # what is about processes spawns its children
    *("benchmarks", "benchmarks/graph_modes"),
    "paddleship",
    *(
        f"paddleship/{name}"
        for name in ("benchmark", "controlflow", "conversion", "diagnosis", "doctor", "proof", "proof/hidden_influences", "weights")
    ),
)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the tests that are marked `long` too, and spawn every child process")


def pytest_configure(config):
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process of a checkout would compile the whole package again


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leave everything that the tests import to no later garbage collection: each would take 0.3 s."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Leave out what is long, and put the files in the order of ORDER."""
    places = [REPOSITORY / "tests" / name for name in ORDER]
    items.sort(key=lambda item: next((place for place, folder in enumerate(places) if item.path.is_relative_to(folder)), len(places)))
    if not config.getoption("long"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture(scope="session")
def warm_context():
    context = warm.Context()
    context.start()
    return context


@pytest.fixture(scope="module", autouse=True)
def _warm_children(request):
    """Let the child processes that a module's tests start be warm, in the short form of the suite."""
    folder = request.path.parent.relative_to(REPOSITORY / "tests").as_posix()
    with pytest.MonkeyPatch.context() as patch:
        if folder in WARM and not request.config.getoption("long"):
            context = request.getfixturevalue("warm_context")
            patch.setattr(isolate, "multiprocessing", types.SimpleNamespace(get_context=lambda _method: context))
        yield


@pytest.fixture(autouse=True)
def _spawned_children(request, monkeypatch):
    """Let those of a test that is marked `spawned` start as a user's do."""
    if request.node.get_closest_marker("spawned"):
        monkeypatch.setattr(isolate, "multiprocessing", multiprocessing)
        monkeypatch.delenv(warm_command.ADDRESS, raising=False)


@pytest.fixture(scope="session")
def warm_commands(request, shared_folder):
    """Fork the commands and stages that tests start from now on; whether that is so, which it is not in the long form of the suite."""
    if request.config.getoption("long"):
        yield False
        return
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(warm_command.ADDRESS, warm_command.serve(shared_folder / "warm", until=owner))
        patch.setattr(subprocess, "Popen", warm_command.Popen)
        yield True


@pytest.fixture(scope="session", autouse=True)
def _locks_of_its_own(tmp_path_factory):
    """The machine's locks in a folder of this session, so that it waits for no benchmark beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(locks.FOLDER, str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session")
def base_params():
    return yaml.safe_load((REPOSITORY / "params.yaml").read_text())


@pytest.fixture(scope="session")
def reviews_params(base_params):
    """The repository's params with an overlay."""
    return lambda overlay=None: loading.parse(loading.merge(base_params, overlay or {}))


@pytest.fixture(scope="session")
def checkout_of(tmp_path_factory):
    """Make a git checkout of this working tree, uncommitted work included, in a folder of its own."""

    def make(name):
        target = tmp_path_factory.mktemp(name) / "checkout"
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True, check=True)
        for path in filter(None, listed.stdout.decode().split("\0")):
            if (REPOSITORY / path).is_file():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / path, target / path)
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "checkout"]):
            subprocess.run(["git", *command], cwd=target, check=True)
        return target

    return make


@pytest.fixture(scope="session")
def linear_checkout_of(checkout_of, base_params):
    """A checkout whose params.yaml is the linear example's, quick enough for tests."""

    def make(name, **changes):
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
                "warmup_s": 0.2,
                "scenario_seconds": 0.5,
                "max_seconds": 2,
                "max_busy_share": 1.0,  # other tests run beside it
            },
            "accept": {"load_requests": 50},
            "graph_modes": {"starts": 1},
        }
        values = loading.merge(loading.merge(loading.merge(base_params, overlay), quick), changes)
        (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        return checkout

    return make


@pytest.fixture(scope="session")
def stage(warm_commands):
    """Run one stage in a checkout as a person does."""

    def run(checkout, name, **environment):
        return subprocess.run(
            [sys.executable, "-m", f"tasks.{name}"],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder of all workers."""
    root = tmp_path_factory.getbasetemp()
    return root.parent if "PYTEST_XDIST_WORKER" in os.environ else root


@pytest.fixture(scope="session")
def once(shared_folder):
    """Make a folder once for all workers: copy what it holds, change nothing in it."""

    def find(name, make):
        folder = shared_folder / f"once-{name}"
        with filelock.FileLock(f"{folder}.lock"):
            if not folder.exists():
                make().rename(folder)
        return folder

    return find


@pytest.fixture(scope="session")
def linear_benchmarked(once, linear_checkout_of, stage):
    """A checkout of the linear example after everything before packaging, for all workers."""

    def make():
        checkout = linear_checkout_of("benchmarked")
        for name in ("prepare", "train", "export", "optimize", "verify", "benchmark"):
            done = stage(checkout, name)
            assert done.returncode == 0, done.stderr
        return checkout

    return once("linear-benchmarked", make)


@pytest.fixture(scope="session")
def mlflow_db(once, tmp_path_factory):
    """An MLflow store with its tables, for all workers; making them costs seconds each time."""
    from paddleship.tracking.client import connect

    def make():
        folder = tmp_path_factory.mktemp("mlflow")
        connect(f"sqlite:///{folder / 'mlflow.db'}").search_experiments()
        return folder

    return once("mlflow", make) / "mlflow.db"


@pytest.fixture(scope="session")
def prefect_db(once, tmp_path_factory, warm_commands):
    """A Prefect database with its tables, for all workers; making them costs seconds each time."""

    def make():
        home = tmp_path_factory.mktemp("prefect-tables")
        command = [str(Path(sys.executable).with_name("prefect")), "server", "database", "upgrade", "-y"]
        subprocess.run(command, env={**os.environ, "PREFECT_HOME": str(home)}, capture_output=True, check=True)
        return home

    return once("prefect", make) / "prefect.db"


@pytest.fixture(scope="session")
def with_tables(prefect_db, mlflow_db):
    """Give a checkout the databases that `make ui` would make first."""

    def give(checkout):
        (checkout / ".paddleship/prefect").mkdir(parents=True)
        shutil.copy(prefect_db, checkout / ".paddleship/prefect/prefect.db")
        shutil.copy(mlflow_db, checkout / ".paddleship/mlflow.db")
        return checkout

    return give


@pytest.fixture(scope="session")
def free_port():
    return background.free_port


@pytest.fixture(scope="session")
def prefect_folder(shared_folder, tmp_path_factory, warm_commands):
    """Where the Prefect server keeps its database and its log."""
    return (shared_folder if warm_commands else tmp_path_factory.mktemp("servers")) / "prefect"


@pytest.fixture(scope="session")
def prefect_url(prefect_folder, free_port, with_tables, warm_commands):
    """A real Prefect server, in the short form for all workers; an ephemeral one per run would cost seconds each."""
    local = replace(Local(prefect_folder), prefect_port=free_port())
    with filelock.FileLock(f"{prefect_folder}.lock"):
        if not prefect_folder.exists():
            with_tables(prefect_folder)
        url = local._prefect().start()
    yield f"{url}/api"
    if not warm_commands:
        local.stop()


@pytest.fixture(scope="session")
def engine():
    """A client of a real engine that has the base image; started by the same scripts that people use."""
    from paddleship.containers import image

    for command in (["infra/engine.sh", "start"], ["infra/base_image.sh", python_version.base_image(platform.python_version())]):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if done.returncode == 4:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stderr
    client = image.connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def proxy_image(engine):
    """The name of the proxy's image, which the engine has."""
    name = Target.model_fields["proxy_image"].default
    subprocess.run([REPOSITORY / "infra/proxy_image.sh", name], check=True)
    return name


@pytest.fixture(scope="session")
def gateway(engine):
    """The address of this machine for containers; from its interface, because an engine does not name the gateway of a new bridge."""
    device = engine.api.inspect_network("bridge")["Options"]["com.docker.network.bridge.name"]
    return next(found.address for found in psutil.net_if_addrs()[device] if found.family == socket.AF_INET)
