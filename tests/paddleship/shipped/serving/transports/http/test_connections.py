"""Connections of clients that are slow, idle, silent, rude or gone, against a real server with short limits."""

import asyncio
import http.client
import json
import logging
import socket
import threading
import time
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.limits import available_memory, in_flight_bytes
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.bodies import Body
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import BodyLimits, ConnectionLimits, of_bodies
from paddleship.shipped.serving.transports.http.server import make_server

SHORT = {"head_timeout_s": 1, "body_window_s": 1, "idle_timeout_s": 1, "min_bytes_per_s": 100_000, "drained_bytes_per_s": 200_000_000}
BODIES = BodyLimits(max_batch=1, max_bytes=3_000_000, max_marks=None)
LONG = b"x" * 30_000_000


@pytest.fixture
def serve():
    """Start a server that answers a body with its length, or with LONG for `GET /long`; gives its port and its guard."""
    servers = []

    def start(in_flight=10_000_000, **limits):
        guard = Guard(ConnectionLimits(**{**SHORT, **limits}), Budget(in_flight))

        async def length(request: Request) -> Response:
            body = None
            try:
                body = Body(dict(request.scope["headers"]), BODIES, guard.budget)
                await body.receive(request.receive)
                return Response(str(len(body.content)))
            except ClientDisconnect:
                return Response(status_code=499)
            except ServingError as error:
                return Response(str(error), statuses.status(error))
            finally:
                if body is not None:
                    body.close()

        async def long(_request: Request) -> Response:
            return Response(LONG)

        async def slow(request: Request) -> Response:
            await request.body()
            gone = asyncio.ensure_future(request.receive())
            await asyncio.wait([gone, asyncio.ensure_future(asyncio.to_thread(start.slow.wait, 30))], return_when="FIRST_COMPLETED")
            return Response("slow")

        app = Starlette(routes=[Route("/", length, methods=["POST", "GET"]), Route("/long", long), Route("/slow", slow)])
        server = make_server(app, guard, host="127.0.0.1", port=0)

        async def run():
            watch = asyncio.create_task(guard.watch())
            await server.serve()
            watch.cancel()

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()
        servers.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return server.servers[0].sockets[0].getsockname()[1], guard

    def stop():
        for server, thread in servers:
            server.should_exit = True
            thread.join()

    start.stop, start.slow = stop, threading.Event()
    start.is_accepting = lambda: any(listener.is_serving() for server, _ in servers for listener in server.servers)
    yield start
    stop()


def connect(port, timeout=20):
    return socket.create_connection(("127.0.0.1", port), timeout)


def rest(connection):
    """All that comes until the server closes."""
    received = b""
    try:
        while chunk := connection.recv(2**20):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def seconds_until_closed(connection):
    start = time.monotonic()
    received = rest(connection)
    return time.monotonic() - start, received


def post(size):
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size


def answer(port, body=b"abc"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/", body)
    response = connection.getresponse()
    received = response.status, response.read()
    connection.close()
    return received


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"POST / HTTP/1.1\r\nHost", b"HTTP/1.1 408"),
        (post(10) + b"abc", b"HTTP/1.1 408"),
        (post(3) + b"abc", b"HTTP/1.1 200"),
        (post(3) + b"abcPOST", b"HTTP/1.1 200"),
    ],
)
def test_a_connection_that_is_silent_slow_or_idle_is_closed(serve, sent, status):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall(sent)
        elapsed, received = seconds_until_closed(connection)
    assert 0.9 < elapsed < 5
    assert received.startswith(status)
    assert answer(port) == (200, b"3")


@pytest.mark.parametrize("start", [b"POST / HTTP/1.1\r\n", post(10_000)], ids=["head", "body"])
def test_a_client_that_sends_byte_after_byte_is_cut_off(serve, start):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall(start)
        begin = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - begin < 10:
                connection.sendall(b"x")
                time.sleep(0.05)
    assert time.monotonic() - begin < 6


def test_a_slow_but_steady_body_above_the_rate_is_answered(serve):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall(post(600_000))
        for _ in range(20):
            connection.sendall(b"x" * 30_000)
            time.sleep(0.15)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_client_that_never_reads_its_answer_is_cut_off_and_counts_until_then(serve):
    port, guard = serve(in_flight=20_000_000)
    with connect(port) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + 300
        while guard.budget.unread < 20_000_000 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert answer(port)[0] == 503
        while guard.connections and time.monotonic() < deadline:
            time.sleep(0.02)
    assert not guard.connections
    while guard.budget.unread and time.monotonic() < deadline:
        time.sleep(0.02)
    assert answer(port) == (200, b"3")


def test_a_client_that_reads_steadily_gets_a_long_answer_whole(serve):
    port, _ = serve(in_flight=100_000_000)
    with connect(port) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = 0
        while chunk := connection.recv(100_000):
            received += len(chunk)
            time.sleep(0.01)
    assert received > len(LONG)


@pytest.mark.parametrize(
    ("header_bytes", "status"), [(60_000, b"200"), (66_000, b"431")], ids=["smaller than the limit", "larger, and all of it at once"]
)
@pytest.mark.parametrize("headers", [1, 60])
def test_a_head_above_the_limit_is_a_431_however_it_arrives(serve, header_bytes, status, headers):
    port, guard = serve()
    lines = b"".join(b"x%d: %s\r\n" % (number, b"y" * (header_bytes // headers)) for number in range(headers))
    with connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n" + lines + b"\r\nabc")
        assert rest(connection).startswith(b"HTTP/1.1 " + status)
    assert guard.refused == ({431: 1} if status == b"431" else {})
    assert answer(port) == (200, b"3")


def test_an_endless_head_is_a_431(serve):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000)
        assert rest(connection).startswith(b"HTTP/1.1 431")
    assert answer(port) == (200, b"3")


def test_a_flood_of_pipelined_requests_is_closed_and_a_few_are_answered(serve):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall((post(1) + b"x") * 4)
        assert rest(connection).count(b"HTTP/1.1 200") == 4
    with connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
        assert rest(connection).count(b"HTTP/1.1 200") < 20


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"\0" * 10_000])
def test_what_is_not_http_is_a_400_in_json(serve, sent):
    port, _ = serve()
    with connect(port) as connection:
        connection.sendall(sent)
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert "not HTTP/1.1" in json.loads(body)["error"]
    assert answer(port) == (200, b"3")


@pytest.mark.parametrize("cuts", [(), (150,), (40, 90, 180, 260)])
def test_a_client_that_asks_for_another_protocol_gets_its_answers_in_this_one(serve, cuts):
    port, _ = serve()
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    first = b"POST / HTTP/1.1\r\nhost: x\r\n" + upgrade + b"content-length: 3\r\n\r\nabc"
    second = b"GET / HTTP/1.1\r\nhost: x\r\n" + upgrade + b"\r\n"
    sent = first + second + b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\nabcde"
    with connect(port) as connection:
        for start, end in zip((0, *cuts), (*cuts, len(sent)), strict=True):
            connection.sendall(sent[start:end])
            time.sleep(0.05)
        received = rest(connection)
    assert received.count(b"HTTP/1.1 200") == 3
    assert [part.rpartition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK")[1:]] == [b"3", b"0", b"5"]


def test_a_refused_body_leaves_the_connection_usable(serve):
    port, _ = serve()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for body, status in ((b"x" * 30_000_000, 413), (b"abc", 200), (b"x" * 3_000_001, 413), (b"abc", 200)):
        connection.request("POST", "/", body)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_unfinished_bodies_are_refused_beyond_the_budget_and_give_their_room_back(serve):
    port, guard = serve(in_flight=7_000_000)
    connections = [connect(port) for _ in range(4)]
    for connection in connections:
        connection.sendall(post(3_000_000) + b"x" * 2_900_000)
    deadline = time.monotonic() + 300
    statuses = [connection.recv(20)[:12] for connection in connections]
    assert statuses.count(b"HTTP/1.1 503") == 2
    assert statuses.count(b"HTTP/1.1 408") == 2
    while guard.budget.used and time.monotonic() < deadline:
        time.sleep(0.01)
    assert guard.budget.used == 0
    assert answer(port, b"x" * 3_000_000) == (200, b"3000000")
    for connection in connections:
        connection.close()


def test_a_client_that_goes_writes_no_traceback(serve, caplog):
    caplog.set_level(logging.INFO)
    port, guard = serve()
    for sent in (post(1000), post(1000) + b"x" * 10, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n", b"POST"):
        with connect(port) as connection:
            connection.sendall(sent)
            time.sleep(0.05)
    assert answer(port) == (200, b"3")
    assert guard.budget.used == 0
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING]


def test_too_many_connections_push_out_the_one_that_waits_longest(serve):
    port, guard = serve(max_connections=3, head_timeout_s=60)
    idle = [connect(port) for _ in range(3)]
    while len(guard.connections) < 3:
        time.sleep(0.01)
    assert answer(port) == (200, b"3")
    assert rest(idle[0]) == b""
    for connection in idle:
        connection.close()


def test_refused_bodies_that_are_still_read_leave_room_for_new_connections(serve):
    port, _ = serve(max_connections=3, drained_bytes_per_s=1000)
    for _ in range(6):  # as many as clients that do not wait to try again; each has its answer and is gone
        connection = connect(port)
        connection.sendall(post(4_000_000))
        assert connection.recv(2**16).startswith(b"HTTP/1.1 413")
        connection.sendall(b"x" * 100_000)
        time.sleep(0.05)
        connection.close()
    assert answer(port) == (200, b"3")


def test_where_all_connections_are_busy_a_new_one_is_a_503(serve):
    port, guard = serve(max_connections=2, body_window_s=60)
    busy = [connect(port) for _ in range(2)]
    for connection in busy:
        connection.sendall(post(1000))
    while sum(connection.busy for connection in guard.connections) < 2:
        time.sleep(0.01)
    with connect(port) as connection:
        received = rest(connection)
    assert received.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in received
    for connection in busy:
        connection.sendall(b"x" * 1000)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.close()


def test_a_server_that_stops_does_not_wait_for_unfinished_requests(serve):
    port, guard = serve(body_window_s=60, head_timeout_s=60)
    with connect(port) as half, connect(port) as silent:
        half.sendall(post(1000))
        while len(guard.connections) < 2 or not any(connection.busy for connection in guard.connections):
            time.sleep(0.01)
        start = time.monotonic()
        serve.stop()
        assert time.monotonic() - start < 5
        assert rest(half) == rest(silent) == b""


def test_a_client_that_half_closes_after_its_requests_gets_their_answers(serve):
    port, _ = serve(idle_timeout_s=60)
    with connect(port) as connection:
        connection.sendall((post(3) + b"abc") * 3)
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection).count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize("sent", [b"", b"POST / HT", post(10) + b"abc"], ids=["nothing", "half a head", "half a body"])
def test_a_client_that_half_closes_before_its_request_is_complete_is_closed(serve, sent):
    port, _ = serve(head_timeout_s=60, body_window_s=60)
    with connect(port) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        elapsed, received = seconds_until_closed(connection)
    assert (elapsed < 5, received) == (True, b"")


def test_a_half_closed_client_of_a_slow_answer_gets_it_and_one_that_is_gone_is_noticed(serve):
    port, guard = serve(body_window_s=60, idle_timeout_s=60)
    with connect(port) as waiting, connect(port) as gone:
        for connection in (waiting, gone):
            connection.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        while sum(connection.busy for connection in guard.connections) < 2:
            time.sleep(0.01)
        waiting.shutdown(socket.SHUT_WR)
        gone.close()
        deadline = time.monotonic() + 300
        while len(guard.connections) > 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(guard.connections) == 1, "the request of the one that is gone is not waited for"
        serve.slow.set()
        assert rest(waiting).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_at_the_end_a_kept_alive_client_gets_one_more_answer_that_closes_its_connection(serve):
    port, _ = serve(idle_timeout_s=60)
    with connect(port) as connection:
        connection.sendall(post(3) + b"abc")
        first = b""
        while not first.endswith(b"\r\n\r\n3"):
            first += connection.recv(1000)
        stopping = threading.Thread(target=serve.stop)
        stopping.start()
        while serve.is_accepting():
            time.sleep(0.01)
        connection.sendall(post(3) + b"abc")
        received = rest(connection)
        stopping.join()
    assert received.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in received


def test_at_the_end_a_body_that_is_still_coming_is_answered(serve):
    port, guard = serve(body_window_s=60)
    with connect(port) as connection:
        connection.sendall(post(6) + b"abc")
        while not any(other.busy for other in guard.connections):
            time.sleep(0.01)
        stopping = threading.Thread(target=serve.stop)
        stopping.start()
        while serve.is_accepting():
            time.sleep(0.01)
        connection.sendall(b"def")
        assert rest(connection).startswith(b"HTTP/1.1 200")
        stopping.join()


def test_limits_follow_the_model_and_the_memory():
    pictures = [TensorSpec("x", "float32", ("batch", 3, 32, 32))]
    small = of_bodies(pictures, max_batch=8, longest_text=None, memory_bytes=10**9)
    assert 8 * 3 * 32 * 32 * 24 < small.max_bytes < 10**7
    assert small.max_marks < 70_000
    endless = of_bodies([TensorSpec("x", "float32", ("batch", "length"))], max_batch=8, longest_text=None, memory_bytes=10**9)
    assert endless.max_bytes == in_flight_bytes(10**9) // 2
    assert endless.max_marks * 24 < 1.01 * in_flight_bytes(10**9)
    text = of_bodies([TensorSpec("text", "str", ("batch",))], max_batch=32, longest_text=128, memory_bytes=10**9)
    assert 32 * 128 * 12 < text.max_bytes < 1_000_000
    assert of_bodies([TensorSpec("text", "str", ("batch",))], max_batch=32, longest_text=10**6, memory_bytes=10**9).max_bytes * 24 <= 1.25e8
    assert available_memory() > 2**20


def test_numbers_beside_texts_count_beside_them():
    texts = [TensorSpec(name, "str", ("batch",)) for name in ("title", "body")]
    one = of_bodies(texts[:1], max_batch=32, longest_text=128, memory_bytes=10**9)
    two = of_bodies(texts, max_batch=32, longest_text=128 + 64, memory_bytes=10**9)
    assert two.max_bytes - one.max_bytes == 32 * (12 * 64 + 16 * 2**10)
    rows = TensorSpec("x", "float64", ("batch", 10))
    assert of_bodies([*texts, rows], max_batch=32, longest_text=192, memory_bytes=10**9).max_bytes == two.max_bytes + 32 * 10 * 64
    endless = of_bodies([*texts, TensorSpec("x", "float32", ("batch", "length"))], max_batch=32, longest_text=192, memory_bytes=10**9)
    assert (endless.max_bytes, endless.max_marks) == (in_flight_bytes(10**9) // 24, None)
