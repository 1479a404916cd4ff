"""SIGTERM to the bare container of an image under 32 kept-alive connections: every request gets its answer."""

import http.client
import json
import threading
import time

import pytest

from paddleship.containers.sandbox import in_sandbox

CLIENTS = 32
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]}]})
PATH = "/v2/models/linear/infer"

pytestmark = [pytest.mark.engine, pytest.mark.slow]


class Clients:
    """32 clients, each of which sends one request after the other on one connection until an answer closes it."""

    def __init__(self, address):
        self._address = address
        self.answered, self.unanswered = [], []
        self._threads = [threading.Thread(target=self._send) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join()

    def _send(self):
        connection = http.client.HTTPConnection(*self._address, timeout=30)
        closes = False
        while not closes:
            try:
                connection.request("POST", PATH, BODY, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.unanswered.append(repr(error))
                break
            self.answered.append(answer.status)
            closes = answer.getheader("connection") == "close"
        connection.close()


def until(what, condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def is_ready(address):
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def stop_under_load(engine, identity):
    """The clients of a container that is stopped after they got 20 answers each on average."""
    with in_sandbox(engine, identity, memory_bytes=10**9) as served:
        address = (served.host, served.port)
        until("the container is not ready", lambda: is_ready(address))
        clients = Clients(address)
        until("too few answers", lambda: len(clients.answered) >= 20 * CLIENTS or clients.unanswered)
        _, code = served.stop(timeout_s=30)
        clients.join()
    assert code in (0, 128 + 15)
    return clients


@pytest.mark.parametrize("stops", [3, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_stop_of_the_bare_container_leaves_no_request_without_an_answer(packaged, engine, stops):
    results = [stop_under_load(engine, packaged[1]["image_id"]) for _ in range(stops)]
    answered = [status for clients in results for status in clients.answered]
    unanswered = [error for clients in results for error in clients.unanswered]
    print(f"{stops} stops under {CLIENTS} connections: {len(answered):,} answered, {len(unanswered)} unanswered")
    assert unanswered == []
    assert set(answered) == {200}
