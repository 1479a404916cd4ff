"""The commands of a user in a network of their own, whose only name server is `name_server.py`: they look up nothing."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from paddleship import NO_TELEMETRY
from tests.e2e import name_server
from tests.flows.helpers import PROGRAM, git

NOT_OURS = (*NO_TELEMETRY, "CI", "TF_BUILD", "JENKINS_URL", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")
NAMESPACE = 'mount --bind "$1" /etc/resolv.conf && exec "$2" "$3" "$4"'

pytestmark = [pytest.mark.slow, pytest.mark.spawned]


class Network:
    """Namespaces with a name server of their own, and the names that were looked up in them."""

    def __init__(self, server, log, home):
        self._server, self._log, self.home = server, log, home

    def start(self, *command, cwd, **more):
        enter = ["nsenter", "--target", str(self._server.pid), "--net", "--mount", "env", "-C", str(cwd)]
        ours = ("PREFECT", "MLFLOW", "DOCKER_HOST")
        kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS and not name.startswith(ours)}
        settings = {**kept, "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "COLUMNS": "200", **more}
        return subprocess.Popen([*enter, *command], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *command, cwd, **more):
        with self.start(*command, cwd=cwd, **more) as process:
            try:
                output, errors = process.communicate(timeout=500)
            finally:
                process.kill()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def looked_up(self):
        """The names, in order; what a command sends in the background may still come, so the end is a look-up of ours."""
        mark = f"mark-{time.monotonic_ns()}.invalid"
        self.run(sys.executable, "-c", f"import socket; socket.getaddrinfo({mark!r}, 80)", cwd=self.home)
        first, *names = self._log.read_text().splitlines()
        assert first == "ready"
        assert mark in names, "the name server recorded nothing"
        return [name for name in names if not name.endswith(".invalid")]

    def device_ids(self):
        return [path for path in self.home.rglob("*") if "deviceid" in path.name.lower()]


@contextmanager
def opened(folder, *, isolated=True):
    """Start the name server in namespaces of its own, which other commands then enter.

    They have nothing but loopback. If they are not isolated, they have the network of this machine, for commands that need its containers.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace: run the suite as root")
    if missing := [name for name in ("unshare", "nsenter", "ip") if not shutil.which(name)]:
        pytest.skip(f"needs {', '.join(missing)}: install util-linux and iproute2")
    (folder / "home/tmp").mkdir(parents=True)
    address = "127.0.0.1" if isolated else f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.53"
    (folder / "resolv.conf").write_text(f"nameserver {address}\noptions timeout:1 attempts:1\n")
    log, script = folder / "names", f"ip link set lo up && {NAMESPACE}" if isolated else NAMESPACE
    unshare = ["unshare", "--mount", *(["--net"] if isolated else []), "bash", "-c", script, "-"]
    command = [*unshare, folder / "resolv.conf", sys.executable, name_server.__file__, address]
    with log.open("w") as names, (folder / "errors").open("w") as errors:
        server = subprocess.Popen(command, stdout=names, stderr=errors)
    try:
        deadline = time.monotonic() + 300
        while not log.read_text().startswith("ready"):
            if server.poll() is not None:
                pytest.skip(f"this machine allows no network namespace: {(folder / 'errors').read_text().strip()[-200:]}")
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Network(server, log, folder / "home")
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def network(tmp_path):
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def checkout(linear_checkout_of):
    return linear_checkout_of("lookups", optimize={"candidates": ["paddle", "onnxruntime", "openvino-int8"]})


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(["--help", "run --until optimize", "doctor --seconds 400", "ui", "stop"], id="the libraries of all"),
        pytest.param(
            ["--help", "run --until benchmark", "runs list", "drift", "doctor --seconds 400", "ui", "ci --until prepare --force", "stop"],
            id="every command",
            marks=pytest.mark.long,
        ),
    ],
)
def test_no_command_looks_up_a_name(network, checkout, commands):
    """The short form imports each library once: those of the stages and of the flow, all runtimes, and those of the two servers."""
    try:
        for words in commands:
            code = 2 if words == "drift" else 0
            done = network.run(PROGRAM, *words.split(), cwd=checkout)
            assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
            assert network.looked_up() == [], words
    finally:
        network.run(PROGRAM, "stop", cwd=checkout)
    assert network.looked_up() == []
    assert network.device_ids() == []


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_no_sweep_and_no_worker_looks_up_a_name(network, checkout, free_port):
    (checkout / "space.yaml").write_text('sweep: {space: {"train.epochs": [2, 3]}, choose: size}\n')
    git(checkout, "commit", "-qam", "linear")
    ports = {"PREFECT_PORT": str(free_port()), "MLFLOW_PORT": str(free_port())}
    try:
        done = network.run(PROGRAM, "sweep", "--params", "space.yaml", cwd=checkout, **ports)
        assert done.returncode == 0, done.stdout + done.stderr
        assert network.looked_up() == [], "sweep"
        assert network.run(PROGRAM, "ui", cwd=checkout, **ports).returncode == 0
        with network.start(PROGRAM, "worker", cwd=checkout, **ports) as worker:
            try:
                follow = ("run", "--deployment", "develop-to-deploy/local", "--until", "prepare")
                done = network.run(PROGRAM, *follow, cwd=checkout, **ports)
                assert done.returncode == 0, done.stdout + done.stderr
            finally:
                worker.terminate()
                worker.communicate(timeout=300)
    finally:
        network.run(PROGRAM, "stop", cwd=checkout, **ports)
    assert network.looked_up() == []
    assert network.device_ids() == []


TRACKED = """
import mlflow, threading
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.create_experiment("a")
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(10)
"""


@pytest.mark.parametrize("opted_out", [False, True])
def test_mlflow_looks_up_its_own_host_unless_it_is_opted_out(network, opted_out):
    """The name server records what it is asked, and this variable is what prevents it."""
    done = network.run(sys.executable, "-c", TRACKED, cwd=network.home, MLFLOW_DISABLE_TELEMETRY=str(opted_out).lower())
    assert done.returncode == 0, done.stderr
    assert ("config.mlflow-telemetry.io" in network.looked_up()) != opted_out


@pytest.mark.parametrize("opted_out", [False, True])
def test_onnx_runtime_writes_a_device_id_unless_it_is_opted_out(network, opted_out):
    """Its look-up comes seconds later: tests/tasks/test_image_lookups.py waits for it."""
    network.run(sys.executable, "-c", "import onnxruntime", cwd=network.home, ORT_DISABLE_TELEMETRY=str(int(opted_out)))
    assert bool(network.device_ids()) != opted_out
