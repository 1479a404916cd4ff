"""SIGTERM to a server process under 32 kept-alive connections: every request gets its answer."""

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[6]
CLIENTS = 32


def client(port, answered, unanswered):
    """Send one request after the other on one connection until an answer closes it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        try:
            connection.request("POST", "/", b"x" * 200)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            unanswered.append(repr(error))
            break
        answered.append(answer.status)
        if answer.getheader("connection") == "close":
            break
    connection.close()


def stop_under_load(port):
    """The statuses of all answers, and the errors of all requests without an answer, around one SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.paddleship.shipped.serving.transports.http.stopped_server", str(port)], cwd=REPOSITORY
    )
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.02)
    of_clients, unanswered = [[] for _ in range(CLIENTS)], []
    threads = [threading.Thread(target=client, args=(port, answered, unanswered)) for answered in of_clients]
    for thread in threads:
        thread.start()
    while not (all(of_clients) and sum(map(len, of_clients)) >= 20 * CLIENTS) and time.monotonic() < deadline:
        time.sleep(0.01)  # until each connection is kept alive: one that waits to be accepted ends with the listening socket
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert process.wait(timeout=300) in (0, -signal.SIGTERM)
    return [status for answered in of_clients for status in answered], unanswered


@pytest.mark.parametrize("stops", [3, pytest.param(100, marks=pytest.mark.long)])
def test_a_stop_leaves_no_request_without_an_answer(stops, free_port):
    results = [stop_under_load(free_port()) for _ in range(stops)]
    assert [unanswered for _, unanswered in results] == [[]] * stops
    assert {status for answered, _ in results for status in answered} == {200}
    assert all(len(answered) >= CLIENTS for answered, _ in results)
