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
from tests.flows.helpers import PROGRAM

NOT_OURS = (*NO_TELEMETRY, "CI", "TF_BUILD", "JENKINS_URL", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")
NAMESPACE = 'ip link set lo up && mount --bind "$1" /etc/resolv.conf && exec "$2" "$3"'

pytestmark = [pytest.mark.slow, pytest.mark.spawned]


class Network:
    """A network namespace that has only loopback, and the names that were looked up in it."""

    def __init__(self, server, log, home):
        self._server, self._log, self.home = server, log, home

    def run(self, *command, cwd, **more):
        enter = ["nsenter", "--target", str(self._server.pid), "--net", "--mount", "env", "-C", str(cwd)]
        ours = ("PREFECT", "MLFLOW", "DOCKER_HOST")
        kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS and not name.startswith(ours)}
        settings = {**kept, "HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "COLUMNS": "200", **more}
        return subprocess.run([*enter, *command], env=settings, capture_output=True, text=True, check=False, timeout=500)

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
def opened(folder):
    """Start the name server in namespaces of its own, which other commands then enter."""
    (folder / "home/tmp").mkdir(parents=True)
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    log = folder / "names"
    command = ["unshare", "--net", "--mount", "bash", "-c", NAMESPACE, "-", folder / "resolv.conf", sys.executable, name_server.__file__]
    with log.open("w") as names, (folder / "errors").open("w") as errors:
        server = subprocess.Popen(command, stdout=names, stderr=errors)
    try:
        deadline = time.monotonic() + 20
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
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace: run the suite as root")
    if missing := [name for name in ("unshare", "nsenter", "ip") if not shutil.which(name)]:
        pytest.skip(f"needs {', '.join(missing)}: install util-linux and iproute2")
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def checkout(linear_checkout_of):
    return linear_checkout_of("lookups", optimize={"candidates": ["paddle", "onnxruntime", "openvino-int8"]})


@pytest.mark.timeout(900)
def test_no_command_looks_up_a_name(network, checkout):
    commands = {
        "--help": 0,
        "run --until benchmark": 0,
        "runs list": 0,
        "drift": 2,
        "doctor examples.linear.model:build --seconds 60": None,
        "ui": 0,
        "ci --until prepare --force": 0,
        "stop": 0,
    }
    try:
        for words, code in commands.items():
            done = network.run(PROGRAM, *words.split(), cwd=checkout)
            assert code is None or done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
            assert network.looked_up() == [], words
    finally:
        network.run(PROGRAM, "stop", cwd=checkout)
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
