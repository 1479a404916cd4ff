"""The closed loop, against a real server."""

import pytest

from paddleship.acceptance.load import closed_loop
from paddleship.acceptance.transports import server_at


def test_the_closed_loop_sends_every_request_once_and_keeps_every_sample(serve):
    load = closed_loop(serve((200, b"{}")).connect, [b"{}"], requests=25, concurrency=3)
    assert len(load.samples_ms) == 25
    assert all(sample > 0 for sample in load.samples_ms)
    assert load.throughput_per_s == pytest.approx(25 / load.seconds)
    assert not load.failures


def test_the_closed_loop_counts_what_failed(serve):
    load = closed_loop(serve((500, b'{"error": "no"}'), (200, b"{}")).connect, [b"{}"], requests=10, concurrency=1)
    assert load.failures == ('500: {"error": "no"}',)
    assert len(load.samples_ms) == 9
    assert closed_loop(server_at("127.0.0.1", 1, model="tiny").connect, [b"{}"], requests=4, concurrency=2).failures


def test_the_closed_loop_sends_a_request_again_while_the_server_has_no_room(serve):
    load = closed_loop(serve((503, b"{}"), (503, b"{}"), (200, b"{}")).connect, [b"{}"], requests=2, concurrency=1)
    assert len(load.samples_ms) == 2
    assert not load.failures


def test_the_closed_loop_ends_in_time_and_sends_each_body_once(serve):
    load = closed_loop(serve((200, b"{}")).connect, [b"1", b"2", b"3"], requests=10**9, concurrency=2, seconds=0.2)
    assert len(load.samples_ms) > 3
    assert closed_loop(serve((200, b"{}")).connect, [b"1", b"2", b"3"], requests=10**9, concurrency=2, seconds=0).answers == ({b"{}"},) * 3
