"""Several processes of a server: one that is killed is replaced and harms no other, and all end together."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import psutil
import pytest

from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.processes.clients import (
    SCORES,
    Clients,
    count_of,
    get,
    is_ready,
    kill,
    server,
    until,
    workers,
)
from tests.stage_code import REPOSITORY

CLIENTS = 16


@pytest.fixture
def tensors(tmp_path):
    return make_tensors(tmp_path / "tensors")


def scores(content):
    return orjson.loads(content)["outputs"][0]["data"]


def connections(pid):
    """How many clients a process has."""
    return sum(one.status == psutil.CONN_ESTABLISHED for one in psutil.Process(pid).net_connections("tcp"))


def log_of(folder):
    return Path(f"{folder}.log").read_text()


def test_a_killed_process_is_replaced_and_no_request_to_another_is_lost(tensors, free_port):
    port = free_port()
    address = ("127.0.0.1", port)
    with server(tensors, port) as parent:
        first = workers(parent.pid)
        assert len(first) == 2
        clients = Clients(address, CLIENTS)
        until("too few answers", lambda: all(clients.counts))
        theirs = connections(first[0])
        assert 0 < theirs < CLIENTS
        kill(first[0])
        until("it is not replaced", lambda: len(workers(parent.pid)) == 2 and first[0] not in workers(parent.pid))
        until("it is not ready", lambda: count_of(address, "paddleship_processes") == 2)
        assert len(clients.lost) == theirs
        before = list(clients.counts)
        until(
            "the others stopped",
            lambda: sum(now > then for now, then in zip(clients.counts, before, strict=True)) == CLIENTS - len(clients.lost),
        )
        again = Clients(address, CLIENTS)
        until("too few answers", lambda: all(again.counts))
        again.end()
        clients.end()
        assert set(clients.statuses) == set(again.statuses) == {200}
        assert {tuple(scores(answer)) for answer in clients.answers | again.answers} == {tuple(SCORES)}
        assert again.lost == []
        assert first[1] in workers(parent.pid)
        assert "a server process ended (SIGKILL), and is replaced" in log_of(tensors)


def test_clients_of_a_killed_process_are_answered_as_soon_as_they_connect_again(tensors, free_port):
    port = free_port()
    address = ("127.0.0.1", port)
    with server(tensors, port) as parent:
        clients = Clients(address, CLIENTS, reconnect=True)
        until("too few answers", lambda: all(clients.counts))
        for number in range(1, 5):
            kill(max(workers(parent.pid), key=connections))
            until("it is not replaced", lambda number=number: count_of(address, "paddleship_processes_replaced_total") == number)
            until("it is not ready", lambda: count_of(address, "paddleship_processes") == 2)
        clients.end()
    assert len(clients.lost) > CLIENTS
    assert clients.refused == []
    assert set(clients.statuses) == {200}


def test_the_metrics_are_the_sum_over_processes_and_no_count_falls_when_one_is_replaced(tensors, free_port):
    port = free_port()
    address = ("127.0.0.1", port)
    with server(tensors, port) as parent:
        clients = Clients(address, CLIENTS)
        until("too few answers", lambda: min(clients.counts) >= 5)
        clients.end()
        sent = sum(clients.counts)
        until("some are not counted", lambda: count_of(address, "paddleship_request_seconds_count") == sent)
        assert count_of(address, "paddleship_processes") == 2
        used = count_of(address, "process_cpu_seconds_total")
        for number, process in enumerate(workers(parent.pid), 1):
            kill(process)
            until("it is not replaced", lambda number=number: count_of(address, "paddleship_processes_replaced_total") == number)
            until("it is not ready", lambda: count_of(address, "paddleship_processes") == 2)
        assert count_of(address, "paddleship_request_seconds_count") == sent
        assert count_of(address, "process_cpu_seconds_total") >= used
        assert count_of(address, "paddleship_ready") == 1


@pytest.mark.parametrize("stops", [2, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_a_stop_of_all_leaves_no_request_without_an_answer_and_ends_with_0(tensors, free_port, stops):
    for _ in range(stops):
        port = free_port()
        with server(tensors, port) as parent:
            clients = Clients(("127.0.0.1", port), 2 * CLIENTS)
            until("too few answers", lambda clients=clients: min(clients.counts) >= 5)
            parent.send_signal(signal.SIGTERM)
            clients.join()
            assert parent.wait(300) == 0
        assert clients.lost == []
        assert set(clients.statuses) == {200}


def test_a_server_that_cannot_load_its_model_ends_with_one_line(tensors, free_port):
    (tensors / "model.onnx").write_bytes(b"")
    with server(tensors, free_port()) as parent:
        assert parent.wait(300) == 2
    lines = [line for line in log_of(tensors).splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "model.onnx" in lines[0]
    assert "Traceback" not in log_of(tensors)


def test_processes_that_end_again_and_again_end_the_server_with_one_line(tensors, free_port):
    port = free_port()
    with server(tensors, port) as parent:
        (tensors / "model.onnx").write_bytes(b"")  # so that no other process can load it
        kill(workers(parent.pid)[0])
        assert parent.wait(300) == 1
    lines = [line for line in log_of(tensors).splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "7 server processes ended in 60 s, the last one with exit code 2: " in lines[0]
    assert "model.onnx" in lines[0]
    assert log_of(tensors).count("(exit code 2), and is replaced: ") == 5
    assert get(("127.0.0.1", port), "/v2") == (0, b"")


def test_processes_end_when_their_parent_is_killed(tensors, free_port):
    port = free_port()
    with server(tensors, port) as parent:
        orphans = workers(parent.pid)
        kill(parent.pid)
        until("some are left", lambda: not any(is_alive(pid) for pid in orphans))
        assert not is_ready(("127.0.0.1", port))


def is_alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_port_in_use_is_one_line_before_any_process_is_started(tensors, free_port):
    port = free_port()
    with server(tensors, port):
        command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(tensors), "--port", str(port), "--processes", "2"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (4, f"error: port {port} on 127.0.0.1 is unavailable: choose another with --port\n")


def test_each_process_has_its_share_of_the_memory_and_one_has_all_and_no_parent(tensors, free_port):
    port = free_port()
    with server(tensors, port, "--memory-bytes", "160000000") as parent:
        assert count_of(("127.0.0.1", port), "paddleship_budget_bytes") == 20_000_000
        assert os.getpgid(workers(parent.pid)[0]) != os.getpgid(parent.pid)
    with server(tensors, port, "--memory-bytes", "160000000", processes=1) as alone:
        assert count_of(("127.0.0.1", port), "paddleship_budget_bytes") == 20_000_000
        assert workers(alone.pid) == []


def test_sigusr1_moves_the_clients_of_all_processes_to_other_connections(tensors, free_port):
    port = free_port()
    with server(tensors, port) as parent:
        clients = Clients(("127.0.0.1", port), CLIENTS)
        until("too few answers", lambda: all(clients.counts))
        parent.send_signal(signal.SIGUSR1)
        clients.join()
        assert clients.lost == []
        assert len(workers(parent.pid)) == 2
        assert is_ready(("127.0.0.1", port))


def test_a_replacement_listens_only_once_its_model_is_loaded(tensors, free_port):
    port = free_port()
    address = ("127.0.0.1", port)
    with server(tensors, port) as parent:
        for number in range(1, 3):
            kill(workers(parent.pid)[0])
            until(
                "it is not replaced",
                lambda number=number: len(workers(parent.pid)) == 2 and count_of(address, "paddleship_processes_replaced_total") == number,
            )
            while count_of(address, "paddleship_processes") < 2:
                clients = Clients(address, CLIENTS)
                until("too few answers", lambda clients=clients: all(clients.counts))
                clients.end()
                assert (clients.lost, set(clients.statuses)) == ([], {200})
