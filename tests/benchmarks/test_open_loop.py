"""The open-loop load: what it sends, and how it counts answers, refusals and requests without a connection."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.serve import client, open_loop


@contextmanager
def server(answer):
    """The port of a server; `answer` gives the status of the request of a number, and may wait."""
    numbers = iter(range(10**6))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answer(next(numbers)))
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

        def send_header(self, name, value):
            super().send_header(name.lower(), value)

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address[1]
    made.shutdown()
    thread.join()
    made.server_close()


def load(port, **options):
    return open_loop.load(port, [client.request("/", b"{}")], **{"rate": 200, "connections": 16, "seconds": 0.5, **options})


def test_answers_and_refusals_are_counted_apart():
    with server(lambda number: 503 if number % 4 == 0 else 200) as port:
        seen = load(port)
    assert seen.sent == pytest.approx(100, abs=40)
    assert len(seen.answered_s) + len(seen.refused_s) + seen.lost == seen.sent
    assert len(seen.refused_s) == pytest.approx(len(seen.answered_s) / 3, abs=2)
    assert not seen.other


def test_a_request_for_which_no_connection_is_free_is_lost_and_so_is_one_without_an_answer():
    ended = threading.Event()
    with server(lambda number: (number or ended.wait(300), 200)[1]) as port:
        seen = load(port, connections=1)
        ended.set()
    assert seen.answered_s == []
    assert seen.lost == seen.sent > 1


def test_the_time_of_an_answer_counts_from_when_its_request_came():
    waited = threading.Event()
    with server(lambda number: (number or waited.wait(0.2), 200)[1]) as port:
        seen = load(port, connections=1, rate=50, seconds=1)
    assert max(seen.answered_s) >= 0.2
