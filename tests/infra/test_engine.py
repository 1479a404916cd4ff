"""infra/engine.sh and infra/base_image.sh, each in namespaces of its own, so that a real engine starts beside any other."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
ENGINE = REPOSITORY / "infra/engine.sh"


@pytest.fixture
def alone(tmp_path):
    """Run a bash script where no engine, no network and no folder of an engine is but its own."""
    if (
        os.geteuid() != 0
        or not shutil.which("unshare")
        or subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs root and namespaces of its own")

    def run(script, **environment):
        frame = f"set -u; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib/paddleship; engine={ENGINE}\n{script}"
        values = {key: value for key, value in os.environ.items() if key != "DOCKER_HOST"}
        (tmp_path / "apt.conf").write_text('Acquire::Retries "0";')  # without a network, each retry is a wait in vain
        values["APT_CONFIG"] = str(tmp_path / "apt.conf")
        Path("/var/lib/paddleship").mkdir(exist_ok=True)
        return subprocess.run(
            [*NAMESPACES, "bash", "-c", frame], capture_output=True, text=True, check=False, timeout=300, env={**values, **environment}
        )

    return run


@pytest.fixture
def with_dockerd():
    if not shutil.which("dockerd"):
        pytest.skip("needs dockerd installed: `make engine`")


@pytest.mark.engine
def test_two_starts_at_once_give_one_engine_and_stop_ends_it(alone, with_dockerd):
    done = alone("""
        $engine start >/run/first & $engine start >/run/second; wait $!
        cat /run/first /run/second
        echo "engines: $(cat /proc/[0-9]*/comm | grep -cx dockerd)"
        $engine status; $engine start; $engine stop
        $engine status || echo "status: $?"
        $engine stop; echo "stop: $?"
    """)
    socket = "unix:///run/paddleship/docker.sock"
    assert done.stdout.splitlines() == [socket, socket, "engines: 1", socket, socket, "status: 4", "stop: 0"], done.stderr


@pytest.mark.engine
def test_an_engine_that_was_killed_is_started_again(alone, with_dockerd):
    done = alone("""
        $engine start >/run/first && kill -9 $(cat /run/paddleship/docker.pid)
        while [ -n "$(tr -d '\\0' </proc/$(cat /run/paddleship/docker.pid)/cmdline 2>/dev/null)" ]; do :; done
        $engine start && $engine stop
    """)
    assert (done.returncode, done.stdout.strip()) == (0, "unix:///run/paddleship/docker.sock"), done.stderr


def test_another_dockerd_is_left_alone(alone):
    done = alone("""
        cp "$(command -v sleep)" /run/dockerd; /run/dockerd 60 & other=$!
        $engine start; echo "start: $?"; $engine stop
        kill -0 $other && echo "lives"
        kill $other
    """)
    assert done.stdout.split("\n")[:2] == ["start: 4", "lives"]
    assert "error: dockerd is running already" in done.stderr


def test_packages_that_cannot_be_installed_are_one_clear_error(alone, tmp_path):
    for tool in ["bash", "cat", "chmod", "flock", "grep", "id", "mkdir", "rm", "seq", "setsid", "tail", "tr"]:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: Temporary failure resolving' >&2; exit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    done = alone(f"PATH={tmp_path}; bash $engine start")
    assert done.returncode == 4
    assert done.stderr.strip().splitlines()[-1].startswith("error: docker.io cannot be installed (E: Temporary failure resolving)")


def test_a_base_image_that_no_registry_and_no_package_gives_is_one_clear_error(alone, with_dockerd):
    script = REPOSITORY / "infra/base_image.sh"
    done = alone(f"{script} 127.0.0.1:1/debian:12; echo $?; {script} 127.0.0.1:1/python:3.11-slim; echo $?; $engine stop")
    assert done.stdout.split() == ["4", "4"], done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "stand-ins exist for python:3.N only" in errors[0]
    assert "docker load" in errors[1]


@pytest.mark.long  # the base image is built in the same way
@pytest.mark.engine
def test_a_proxy_image_that_no_registry_and_no_package_gives_is_one_clear_error(alone, with_dockerd):
    done = alone(f"{REPOSITORY / 'infra/proxy_image.sh'} haproxy:2.6 127.0.0.1:1/python:3.11-slim; echo $?; $engine stop")
    assert done.stdout.split() == ["4"], done.stderr
    assert "docker load" in [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1]


def test_a_docker_host_that_is_set_is_the_only_one_that_counts(with_dockerd):
    environment = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1"}
    done = subprocess.run([ENGINE, "start"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "error: no engine answers at DOCKER_HOST=tcp://127.0.0.1:1" in done.stderr


def test_who_may_not_install_is_told_what_to_do(alone):
    copy = "install -m 755 $engine /run/engine.sh"  # the checkout may be in a folder that only its user may enter
    done = alone(f"{copy}; cd /; setpriv --reuid=65534 --regid=65534 --clear-groups bash /run/engine.sh start")
    assert done.returncode == 4
    assert "make pipeline UNTIL=benchmark" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["restart"]])
def test_wrong_usage_is_told(arguments):
    done = subprocess.run([ENGINE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "start|stop|status" in done.stderr
