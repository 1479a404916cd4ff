"""Embedded defaults: which servers a run talks to, and servers of ours in the background."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace

import psutil
import pytest

from paddleship.errors import BadInput, Unavailable
from paddleship.servers import background
from paddleship.servers.background import ServerProcess
from paddleship.servers.local_state import Local
from paddleship.system import processes
from tests.flows.helpers import PROGRAM, is_alive


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "MLFLOW_TRACKING_URI", "PREFECT_PORT", "MLFLOW_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def web(tmp_path, free_port):
    """A real server, small: Python's own, on a folder."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    server = ServerProcess(name="web", state=tmp_path / "state", port=port, port_variable="WEB_PORT", command=command, health="/")
    yield server
    background.stop(server.state, "web")


def test_a_server_is_started_once_found_again_and_ended(web):
    url = web.start()
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 loopback
        assert answer.status == 200
    pid = json.loads((web.state / "web.server.json").read_text())["pid"]
    assert replace(web, port=1).start() == url, "a running server is found whatever port is asked for now"
    assert background.running(web.state, "web") == url
    assert background.stop(web.state, "web")
    assert not is_alive(pid)
    assert not background.stop(web.state, "web")


def test_a_running_server_is_found_after_the_clock_was_set(web, monkeypatch):
    url, boot = web.start(), psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot + 3600)
    assert background.running(web.state, "web") == url


def test_a_port_in_use_is_named_with_the_variable_that_changes_it(web):
    with socket.socket() as other:
        other.bind(("127.0.0.1", web.port))
        other.listen()
        with pytest.raises(Unavailable, match=rf"port {web.port} for web is in use .* `make ui WEB_PORT="):
            web.start()
    assert not (web.state / "web.server.json").exists()


def test_a_prefect_server_that_the_user_names_must_answer_in_whatever_way(web, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{web.port}/api")
    monkeypatch.setenv("PREFECT_HOME", str(web.state))
    wait = Local(web.state).serve()
    with pytest.raises(Unavailable, match=r"Prefect does not answer at http:.*/api \(.*refused\): start it, or correct PREFECT_API_URL"):
        wait()
    web.start()
    wait()  # which answers 404, as one that asks for a key answers 401


def test_a_server_that_does_not_come_up_tells_its_last_words_and_leaves_nothing(web):
    broken = replace(web, command=[sys.executable, "-c", "raise SystemExit('no such store')"])
    with pytest.raises(Unavailable, match=r"web did not start \(no such store\): see .*web\.log"):
        broken.start()
    assert not (web.state / "web.server.json").exists()


def test_a_pid_that_belongs_to_another_program_now_is_left_alone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True) as stranger:
        realm, pid, started = processes.identity(stranger.pid).rsplit("/", 2)
        facts = {"pid": stranger.pid, "identity": f"{realm}/{pid}/{float(started) - 1000}", "url": "http://127.0.0.1:1"}
        (tmp_path / "web.server.json").write_text(json.dumps(facts))
        assert background.running(tmp_path, "web") is None
        assert not background.stop(tmp_path, "web")
        assert is_alive(stranger.pid)
        stranger.kill()


def test_without_servers_everything_is_embedded(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    local = Local(tmp_path)
    assert local.prefect_url() is None
    assert local.tracking_uri() == f"sqlite:///{tmp_path}/.paddleship/mlflow.db"
    local.use()
    assert os.environ["PREFECT_HOME"] == str(tmp_path / ".paddleship/prefect")
    assert "PREFECT_API_URL" not in os.environ


def test_mlflow_starts_no_jobs_of_its_generative_part_where_the_user_did_not_ask_for_them(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", raising=False)
    assert Local(tmp_path)._mlflow().environment == {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
    assert Local(tmp_path)._mlflow().environment == {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "true"}


def test_what_the_user_set_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example")
    assert Local(tmp_path).prefect_url() == "http://prefect.example/api"
    assert Local(tmp_path).tracking_uri() == "http://mlflow.example"


def test_client_settings_of_a_server_that_died_are_forgotten_and_the_users_own_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    settings = tmp_path / "prefect.toml"
    settings.write_text('# Written by `make ui`, removed by `make stop`.\n[api]\nurl = "http://127.0.0.1:1/api"\n')
    Local(tmp_path).use()
    assert not settings.exists()
    settings.write_text('[api]\nurl = "http://prefect.example/api"\n')
    Local(tmp_path).use()
    Local(tmp_path).stop()
    assert settings.exists()


@pytest.mark.parametrize("value", ["0", "65536", "http", "-1"])
def test_a_port_that_is_none_is_told_with_its_variable(tmp_path, monkeypatch, value):
    monkeypatch.setenv("MLFLOW_PORT", value)
    with pytest.raises(BadInput, match=rf"MLFLOW_PORT must be a port from 1 to 65535 \(got '{value}'\)"):
        Local.of(tmp_path)


def test_make_ui_on_a_port_in_use_is_one_line_and_exit_code_4(toy):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = subprocess.run(
            [PROGRAM, "ui"], cwd=toy, env={**os.environ, "PREFECT_PORT": port}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: port {port} for prefect is in use")
    assert "PREFECT_PORT=" in done.stderr
