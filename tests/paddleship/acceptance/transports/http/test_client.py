"""The HTTP client, against a real server with a will of its own."""

import json
from contextlib import closing

import numpy as np
import pytest

from paddleship.acceptance.transport import Malformed, Outcome, ServerError
from paddleship.acceptance.transports import server_at

ANSWER = {
    "outputs": [
        {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.1, 2]},
        {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["yes"]},
    ]
}


def test_answers_come_back_with_their_dtype_and_their_labels(serve):
    server = serve((200, json.dumps(ANSWER).encode()))
    with closing(server.connect()) as client:
        answer = client.ask({"x": np.zeros((1, 2), np.float32)})
    assert list(answer) == ["y", "label"]
    assert answer["y"].dtype == np.float32
    assert np.array_equal(answer["y"], np.array([[0.1, 2]], np.float32))
    assert answer["label"].tolist() == ["yes"]
    assert np.array_equal(server.decode(json.dumps(ANSWER).encode())["y"], answer["y"])


def test_a_refusal_is_an_error_with_its_status_and_words(serve):
    with closing(serve((400, b'{"error": "send FP32"}')).connect()) as client, pytest.raises(ServerError, match="send FP32") as caught:
        client.ask({"x": np.zeros((1, 2), np.float32)})
    assert caught.value.code == 400


def test_a_server_that_is_not_there_is_an_error_without_status():
    with pytest.raises(ServerError, match="does not answer") as caught:
        server_at("127.0.0.1", 1, model="tiny").connect().ready()
    assert caught.value.code == 0


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, Outcome.ANSWERED), (503, Outcome.BUSY), (400, Outcome.FAILED), (500, Outcome.FAILED), (599, Outcome.FAILED)],
)
def test_a_reply_says_what_its_status_means(serve, status, outcome):
    with closing(serve((status, b'{"error": "\xe2\x80\xa6"}')).connect()) as client:
        for reply in (client.send(b"{}"), client.provoke(Malformed("no inputs", b"{}", (400,)))):
            assert (reply.outcome, reply.code, reply.text(100)) == (outcome, status, '{"error": "…"}')
