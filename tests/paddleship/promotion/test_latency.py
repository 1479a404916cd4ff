"""Servers raced over HTTP: an honest pair cannot be told apart, a slow one can, and who fails has no speed."""

import threading
import time
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from paddleship.acceptance.load import LoadResult
from paddleship.acceptance.transports import server_at
from paddleship.promotion import latency
from paddleship.statistics.estimates import Difference


@pytest.fixture
def race(monkeypatch):
    """Race three servers that sleep and answer with a status."""
    monkeypatch.setattr(latency, "STARTS", 2)

    def run(seconds_of, *, status=200):
        @contextmanager
        def servers():
            made = {}
            for name in latency.NAMES:
                server = ThreadingHTTPServer(
                    ("127.0.0.1", 0), handler(seconds_of.get(name, 0.002), status if name == latency.CHALLENGER else 200)
                )
                threading.Thread(target=server.serve_forever, daemon=True).start()
                made[name] = server
            yield {name: server_at(*server.server_address, model="m").connect for name, server in made.items()}
            for server in made.values():
                server.shutdown()
                server.server_close()

        return latency.race(servers, [b"{}"], effect=0.05, seconds=3)

    return run


def handler(seconds, status):
    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", 65536  # head and body in one packet

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(seconds)
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    return Handler


@pytest.fixture
def told(monkeypatch):
    """What is said of servers that take so many ms, give or take a twentieth."""

    def tell(**milliseconds):
        random = np.random.default_rng(0)
        ms = {name: milliseconds.get(name.replace(" ", "_"), 2.0) for name in latency.NAMES}

        def load(name, _bodies, **_):
            return LoadResult(tuple(ms[name] * random.uniform(0.95, 1.05, 20)), 1.0, (), ())

        monkeypatch.setattr(latency, "closed_loop", load)
        return latency.race(lambda: nullcontext({name: name for name in latency.NAMES}), [b"{}"], effect=0.05, seconds=1)

    return tell


def test_a_slower_challenger_is_told_and_refused_unless_it_may_be_slower(told):
    found = told(challenger=3.0)
    assert found.verdict == Difference.WORSE
    assert found.speedup.low < 2 / 3 < found.speedup.high < 1
    assert not latency.check(found, allow_slower=False).passed
    assert latency.check(found, allow_slower=True).passed
    typical = found.typical_ms[latency.CHALLENGER]
    assert 2.85 < typical.low < typical.value < typical.high < 3.15


def test_a_faster_challenger_is_better(told):
    assert told(challenger=1.0).verdict == Difference.BETTER


def test_the_same_twice_cannot_be_told_apart_and_passes(told):
    found = told()
    assert found.verdict == Difference.CANNOT_TELL
    assert latency.check(found, allow_slower=False).passed


def test_a_difference_within_what_the_champion_shows_against_itself_cannot_be_told(told):
    assert told(champion_again=4.0, challenger=3.0).verdict == Difference.CANNOT_TELL


def test_servers_are_measured_over_http(race):
    found = race({latency.CHALLENGER: 0.05})
    assert found.p50_ms[latency.CHALLENGER] >= 50
    assert set(found.p50_ms) == set(latency.NAMES)
    assert found.speedup.value < 1
    assert found.failures == ()


def test_one_that_fails_has_no_speed_and_is_refused_whatever_is_allowed(race):
    found = race({}, status=500)
    assert found.verdict is None
    assert found.failures[0].startswith("challenger: 500")
    assert found.typical_ms == {}
    assert not latency.check(found, allow_slower=True).passed
