"""Processes that ended while a server was asked are found, whatever it answered."""

import pytest

from paddleship.acceptance.transport import ServerError
from paddleship.acceptance.transports import replaced_processes, server_at
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.processes.clients import count_of, kill, server, until, workers


def test_a_process_that_was_replaced_is_counted(tmp_path, free_port):
    port = free_port()
    asked = server_at("127.0.0.1", port, model="tiny")
    with server(make_tensors(tmp_path / "tensors"), port) as parent:
        assert replaced_processes(asked) == 0
        kill(workers(parent.pid)[0])
        until("it is not replaced", lambda: count_of(("127.0.0.1", port), "paddleship_processes_replaced_total") == 1)
        assert replaced_processes(asked) == 1


def test_a_server_without_the_metric_is_an_error(tmp_path, free_port):
    port, token = free_port(), tmp_path / "token"
    token.write_text("x" * 32)
    with (
        server(make_tensors(tmp_path / "tensors"), port, "--token-file", str(token)),
        pytest.raises(ServerError, match=r"has no metric paddleship_processes_replaced_total \(401\)"),
    ):
        replaced_processes(server_at("127.0.0.1", port, model="tiny"))
