"""Time limits of requests over HTTP, and what a server does with requests that it has no place for."""

import functools
import http.client
import json
import socket
import threading
import time
from unittest.mock import Mock

import pytest
from starlette.responses import Response

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.options import Tokens
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.settings import Settings
from paddleship.shipped.serving.telemetry.recording import Recorder
from paddleship.shipped.serving.transports.http import request_log
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.server import make_server
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports.http.recording import request
from tests.paddleship.shipped.serving.transports.http.running import server
from tests.paddleship.shipped.serving.transports.http.test_serving import ready

INFER, TOKEN = "/v2/models/tiny/infer", b"a-token-of-a-test"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN.decode()}"}


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


@pytest.fixture
def client(tensors):
    yield from ready(tensors)


def test_a_request_with_enough_time_is_answered(client):
    for options in ({"headers": {"Request-Timeout-Ms": "20000"}}, {"timeout": 20_000_000}, {"timeout": 0}):
        body = request() | {"parameters": {"timeout": options.get("timeout", 0)}}
        assert client.post(INFER, json=body, headers=options.get("headers")).status_code == 200


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "soon", "", "1" * 13])
def test_a_time_limit_in_the_header_that_is_no_number_of_milliseconds_is_a_400(client, value):
    answer = client.post(INFER, json=request(), headers={"Request-Timeout-Ms": value})
    assert answer.status_code == 400
    assert "send milliseconds, a whole number of at least 1" in answer.json()["error"]


@pytest.mark.parametrize("value", [-1, 1.5, "soon", True, None, [1]])
def test_a_time_limit_in_the_parameters_that_is_no_number_of_microseconds_is_a_400(client, value):
    answer = client.post(INFER, json=request() | {"parameters": {"timeout": value}})
    assert answer.status_code == 400
    assert "send microseconds, a whole number; 0 for no limit" in answer.json()["error"]


def test_a_request_whose_time_has_passed_before_its_turn_is_a_504_and_not_computed(client, monkeypatch):
    monkeypatch.setattr("paddleship.shipped.serving.model.ServedModel.run", Mock(side_effect=AssertionError))
    monkeypatch.setattr("paddleship.shipped.serving.model.ServedModel.encode", Mock(side_effect=AssertionError))
    answer = client.post(INFER, json=request() | {"parameters": {"timeout": 1}})
    assert answer.status_code == 504
    assert "the time limit of the request has passed" in answer.json()["error"]


def test_a_request_that_waited_longer_than_its_header_allows_is_not_even_decoded(client, monkeypatch):
    monkeypatch.setattr("paddleship.shipped.serving.transports.http.deadlines.of_headers", lambda *_: time.perf_counter() - 1)
    monkeypatch.setattr("paddleship.shipped.serving.transports.http.inference.JsonModel.parse", Mock(side_effect=AssertionError))
    assert client.post(INFER, json=request()).status_code == 504


@pytest.fixture
def full():
    """The port of a server whose queue is full for bodies of more than 1,000 bytes, and the paths of the requests that reached its app."""
    reached = []

    async def app(scope, receive, send):
        reached.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        await Response("answered")(scope, receive, send)

    class Admission:
        crowded = True

        def refusal(self, size):
            return ServingError(Kind.BUSY, f"the server is busy ({size} bytes)", retry_s=7) if size > 1000 else None

    log_refusal = functools.partial(request_log.refused, Recorder(logs=True))
    guard = Guard(ConnectionLimits(), Budget(10**7), Admission(), tokens=Tokens((TOKEN,)), log_refusal=log_refusal)
    server = make_server(app, guard, host="127.0.0.1", port=0)
    server.config.lifespan = "off"
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1], reached
    server.should_exit = True
    thread.join()


def connected(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def test_a_request_without_a_place_is_refused_before_the_app_sees_it_and_its_connection_goes_on(full):
    port, reached = full
    connection = connected(port)
    for size, status in ((2000, 503), (10, 200), (300_000, 503), (2000, 503), (10, 200)):
        connection.request("POST", INFER, b"x" * size, AUTHORIZED)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status
        if status == 503:
            assert json.loads(body) == {"error": f"the server is busy ({size} bytes)"}
            assert answer.getheader("Retry-After") == "7"
    connection.close()
    assert reached == [INFER] * 2


def test_a_refused_request_is_logged_as_others_are(full, caplog):
    caplog.set_level("INFO")
    connection = connected(full[0])
    connection.request("POST", INFER, b"x" * 2000, {"X-Request-Id": "7", **AUTHORIZED})
    assert connection.getresponse().status == 503
    connection.close()
    logged = [record for record in caplog.records if record.name == "paddleship.shipped.serving.requests"]
    deadline = time.monotonic() + 300
    while not logged and time.monotonic() < deadline:  # the answer goes out before its line
        time.sleep(0.01)
        logged = [record for record in caplog.records if record.name == "paddleship.shipped.serving.requests"]
    (record,) = logged
    assert record.getMessage() == f"POST {INFER}"
    assert record.fields == {
        "status": 503,
        "duration_ms": 0.0,
        "response_bytes": 43,
        "request_id": "7",
        "error": "the server is busy (2000 bytes)",
    }


@pytest.mark.parametrize(("method", "headers"), [("POST", {}), ("POST", {"Authorization": "Bearer wrong"}), ("PUT", AUTHORIZED)])
def test_what_the_app_refuses_anyway_is_for_the_app(full, method, headers):
    port, reached = full
    connection = connected(port)
    connection.request(method, INFER, b"x" * 2000, headers)
    assert connection.getresponse().read() == b"answered"
    connection.close()
    assert reached == [INFER]


def test_other_paths_and_requests_that_wait_for_leave_to_send_their_body_are_for_the_app(full):
    port, reached = full
    connection = connected(port)
    connection.request("POST", "/v2", b"x" * 2000)
    assert connection.getresponse().read() == b"answered"
    connection.request("POST", INFER, b"x" * 2000, {"Expect": "100-continue", **AUTHORIZED})
    assert connection.getresponse().read() == b"answered"
    connection.close()
    assert reached == ["/v2", INFER]


def test_requests_that_are_sent_without_waiting_for_answers_get_theirs_in_order(full):
    port, _ = full
    head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{}\r\n"
    parts = [
        head.format("/v2", 5, "") + "x" * 5,
        head.format(INFER, 2000, f"Authorization: Bearer {TOKEN.decode()}\r\n") + "x" * 2000,
        head.format("/v2", 5, "Connection: close\r\n") + "x" * 5,
    ]
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall("".join(parts).encode())
        received = b""
        while chunk := connection.recv(2**16):
            received += chunk
    assert received.count(b"HTTP/1.1 ") == 3
    assert received.rstrip().endswith(b"answered")


def test_the_time_of_a_request_counts_from_its_first_byte(tensors):
    body = json.dumps(request()).encode()
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    with server(tensors) as port, socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(f"{head}Request-Timeout-Ms: 300\r\nConnection: close\r\n".encode())
        time.sleep(0.5)
        connection.sendall(b"\r\n" + body)
        received = b""
        while chunk := connection.recv(2**16):
            received += chunk
    assert received.startswith(b"HTTP/1.1 504")


def test_the_objective_of_an_image_bounds_the_time_that_requests_wait(tensors):
    service = Service(lambda: pytest.fail("it is not loaded"), Budget(100), Settings(slo_p99_ms=200))
    assert service.queue._longest_s == 0.1
    service.close()
