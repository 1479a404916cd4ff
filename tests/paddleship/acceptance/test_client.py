"""The client and its closed loop, against a real HTTP server with a will of its own."""

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from paddleship.acceptance.client import Client, ServerError
from paddleship.acceptance.http_load import closed_loop
from paddleship.acceptance.questions import mixed, plain_request, questions, repeated, within
from paddleship.acceptance.triton import TritonClient, read_answer, request_body

ANSWER = {
    "outputs": [
        {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.1, 2]},
        {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["yes"]},
    ]
}


@pytest.fixture
def serve():
    """Start a server that gives `answers` in turn, the last one for ever; gives a way to connect to it."""
    servers = []

    def start(*answers):
        remaining = list(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return partial(Client, *server.server_address, model="tiny")

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def test_answers_come_back_with_their_dtype_and_their_labels(serve):
    server = serve((200, json.dumps(ANSWER).encode()))
    client = TritonClient(*server.args, model="tiny")
    answer = client.ask({"x": np.zeros((1, 2), np.float32)})
    client.close()
    assert list(answer) == ["y", "label"]
    assert answer["y"].dtype == np.float32
    assert np.array_equal(answer["y"], np.array([[0.1, 2]], np.float32))
    assert answer["label"].tolist() == ["yes"]
    assert np.array_equal(read_answer(json.dumps(ANSWER).encode())["y"], answer["y"])


def test_a_refusal_is_an_error_with_its_status_and_words(serve):
    client = TritonClient(*serve((400, b'{"error": "send FP32"}')).args, model="tiny")
    with pytest.raises(ServerError, match="send FP32") as caught:
        client.ask({"x": np.zeros((1, 2), np.float32)})
    client.close()
    assert caught.value.status == 400


def test_a_server_that_is_not_there_is_an_error_without_status():
    with pytest.raises(ServerError, match="does not answer") as caught:
        Client("127.0.0.1", 1, model="tiny").get("/v2")
    assert caught.value.status == 0


TEXT = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}]}
IDS = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [-1, -1]}, {"name": "n", "datatype": "INT32", "shape": [-1]}]}


def test_text_is_sent_raw_and_tensors_are_padded_to_one_shape():
    (question,) = questions([{"text": ["  ｇood ", "é"]}], TEXT, {})
    assert json.loads(request_body(question.tensors))["inputs"] == [
        {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["  ｇood ", "é"]}
    ]
    (question,) = questions([{"ids": [[1, 2], [3]], "n": [2, np.int32(1)]}], IDS, {"ids": -1})
    assert json.loads(request_body(question.tensors))["inputs"] == [
        {"name": "ids", "shape": [2, 2], "datatype": "INT64", "data": [1, 2, 3, -1]},
        {"name": "n", "shape": [2], "datatype": "INT32", "data": [2, 1]},
    ]


def test_a_plain_request_has_no_more_digits_than_it_needs():
    request = plain_request({"x": np.array([[0.1, 2]], np.float32), "flag": np.array([True])})
    assert json.dumps(request) == (
        '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.1, 2.0]}, '
        '{"name": "flag", "datatype": "BOOL", "shape": [1], "data": [true]}]}'
    )


def test_rows_are_repeated_up_to_a_batch():
    assert repeated({"x": np.array([[1, 2], [3, 4]])}, 3)["x"].tolist() == [[1, 2], [3, 4], [1, 2]]


def test_mixed_questions_are_of_all_sizes_and_each_once():
    asked = questions([{"text": ["a"] * size} for size in (1, 2, 3, 5, 8, 13, 32, 7, 20)], TEXT, {})
    for count in (1, 2, 5, 9, 100):
        sizes = [question.rows for question in mixed(asked, count=count)]
        assert len(sizes) == len({*sizes}) == min(count, 9)
    assert {1, 32} <= {*sizes}


def test_batches_beyond_the_server_or_the_time_are_left_out_large_and_small_alike():
    asked = questions([{"text": ["a" * 100] * size} for size in range(1, 33)], TEXT, {})
    assert within(asked, body_bytes=10**6, total_bytes=10**6) == asked
    assert max(question.rows for question in within(asked, body_bytes=1500, total_bytes=10**6)) == 14
    sizes = [question.rows for question in within(asked, body_bytes=10**6, total_bytes=20_000)]
    assert sum(sizes) * 100 < 20_000
    assert {1, 32} <= {*sizes}
    assert sizes == sorted(sizes)
    assert [question.rows for question in within(asked, body_bytes=10**6, total_bytes=1)] == [1]
    assert within(asked, body_bytes=10, total_bytes=10**6) == []
    (wide,) = questions([{"ids": np.full((2, 1000), 2**62), "n": [1, 2]}], IDS, {})
    assert wide.body_bytes > len(request_body(wide.tensors)) - 200


def test_the_closed_loop_sends_every_request_once_and_keeps_every_sample(serve):
    load = closed_loop(serve((200, b"{}")), [b"{}"], requests=25, concurrency=3)
    assert len(load.samples_ms) == 25
    assert all(sample > 0 for sample in load.samples_ms)
    assert load.throughput_per_s == pytest.approx(25 / load.seconds)
    assert not load.failures


def test_the_closed_loop_counts_what_failed(serve):
    load = closed_loop(serve((500, b'{"error": "no"}'), (200, b"{}")), [b"{}"], requests=10, concurrency=1)
    assert load.failures == ('500: {"error": "no"}',)
    assert len(load.samples_ms) == 9
    assert closed_loop(partial(Client, "127.0.0.1", 1, model="tiny"), [b"{}"], requests=4, concurrency=2).failures


def test_the_closed_loop_ends_in_time_and_sends_each_body_once(serve):
    load = closed_loop(serve((200, b"{}")), [b"1", b"2", b"3"], requests=10**9, concurrency=2, seconds=0.2)
    assert len(load.samples_ms) > 3
    assert closed_loop(serve((200, b"{}")), [b"1", b"2", b"3"], requests=10**9, concurrency=2, seconds=0).answers == ({b"{}"},) * 3
