"""The client and its closed loop, against a real HTTP server with a will of its own."""

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from paddleship.client import Client, ServerError, encode_request
from paddleship.load import closed_loop
from paddleship.preprocess import build
from paddleship.spec import TensorSpec

OUTPUT = TensorSpec("y", "float32", ("batch", 2))
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


def test_answers_come_back_with_their_dtype_and_without_the_label(serve):
    client = serve((200, json.dumps(ANSWER).encode()))()
    answer = client.infer(b"{}", [OUTPUT])
    client.close()
    assert list(answer) == ["y"]
    assert answer["y"].dtype == np.float32
    assert np.array_equal(answer["y"], np.array([[0.1, 2]], np.float32))


def test_a_refusal_is_an_error_with_its_status_and_words(serve):
    client = serve((400, b'{"error": "send FP32"}'))()
    with pytest.raises(ServerError, match=r"answered 400 .*send FP32") as caught:
        client.infer(b"{}", [OUTPUT])
    client.close()
    assert caught.value.status == 400


def test_a_server_that_is_not_there_is_an_error_without_status():
    with pytest.raises(ServerError, match="does not answer") as caught:
        Client("127.0.0.1", 1, model="tiny").get("/v2")
    assert caught.value.status == 0


def test_text_is_sent_as_it_is_and_tensors_are_padded_to_one_shape():
    settings = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["好"]}
    settings |= {"unicode_form": "NFKC", "max_length": 4, "multiple_of": 2}
    ids = TensorSpec("ids", "int64", ("batch", "length"))
    sent = json.loads(encode_request(build(settings, [ids]), {"text": ["好", "x"]}))["inputs"]
    assert sent == [{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["好", "x"]}]
    sent = json.loads(encode_request(build({"kind": "tensors"}, [ids]), {"ids": [[1, 2], [3]]}))["inputs"]
    assert sent == [{"name": "ids", "datatype": "INT64", "shape": [2, 2], "data": [1, 2, 3, 0]}]


def test_the_closed_loop_sends_every_request_once_and_keeps_every_sample(serve):
    load = closed_loop(serve((200, b"{}")), [b"{}"], requests=25, concurrency=3)
    assert len(load.samples_ms) == 25
    assert all(sample > 0 for sample in load.samples_ms)
    assert load.throughput_per_s == pytest.approx(25 / load.seconds)
    assert not load.failures


def test_the_closed_loop_counts_what_failed(serve):
    load = closed_loop(serve((500, b'{"error": "no"}'), (200, b"{}")), [b"{}"], requests=10, concurrency=1)
    assert load.failures == ['500: {"error": "no"}']
    assert len(load.samples_ms) == 9
    assert closed_loop(partial(Client, "127.0.0.1", 1, model="tiny"), [b"{}"], requests=4, concurrency=2).failures
