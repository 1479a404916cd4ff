"""A server that limits what one client has in flight, asked over both of its transports."""

import http.client
import json
import select
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager

import grpc
import pytest
from tritonclient import grpc as triton
from tritonclient.utils import InferenceServerException

from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.paddleship.shipped.serving.transports.grpc.test_grpc_protection import ask, question
from tests.paddleship.shipped.serving.transports.http.recording import request

INFER, METHOD = "/v2/models/tiny/infer", "/inference.GRPCInferenceService/ModelInfer"
BODY = json.dumps(request()).encode()
TOKENS = ["a-token-of-one-client", "a-token-of-another"]


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


@pytest.fixture(scope="module")
def ports(tensors):
    with grpc_server.process(tensors, "--max-requests-per-client", "1") as ports:
        yield ports


def headers(token):
    return {"Authorization": f"Bearer {token}"} if token else {}


def post(port, *, token=None, source="127.0.0.1", path=INFER):
    """The status, the headers and the JSON of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(source, 0))) as connection:
        connection.request("POST", path, BODY, headers(token))
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


@contextmanager
def in_flight(port, *, token=None):
    """A request over HTTP whose last byte is sent at the end, and which is answered then."""
    lines = [f"POST {INFER} HTTP/1.1", "Host: x", f"Content-Length: {len(BODY)}", *(f"{k}: {v}" for k, v in headers(token).items())]
    held = []

    def is_held():
        """It is begun again if it was refused because a question of this function came first."""
        if not held or select.select(held[-1:], [], [], 0)[0]:
            held.append(socket.create_connection(("127.0.0.1", port), 60))
            held[-1].sendall("\r\n".join([*lines, "", ""]).encode() + BODY[:-1])
        return post(port, token=token)[0] == 429

    try:
        grpc_server.wait_until(is_held)
        yield
        held[-1].sendall(BODY[-1:])
        assert held[-1].recv(2**16).startswith(b"HTTP/1.1 200 OK")
    finally:
        for connection in held:
            connection.close()


def metric(port, name):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_over_http_one_more_is_a_429_and_other_clients_and_questions_are_answered(ports):
    port, _ = ports
    with in_flight(port):
        before = metric(port, 'paddleship_failures_total{kind="client_limit"}')
        status, found, body = post(port)
        assert (status, found["Retry-After"]) == (429, "1")
        assert body == {"error": "this client has 1 request in flight, its limit: wait for an answer, then try again"}
        assert post(port, path="/predict")[0] == 429
        assert metric(port, 'paddleship_failures_total{kind="client_limit"}') == before + 2
        assert post(port, source="127.0.0.2")[0] == 200
    grpc_server.wait_until(lambda: post(port)[0] == 200)


def test_over_grpc_one_more_is_exhausted_and_health_is_answered(ports):
    address, ended = f"127.0.0.1:{ports[1]}", threading.Event()
    with grpc.insecure_channel(address) as channel, triton.InferenceServerClient(address) as client:
        calls = []

        def is_held():
            """Whether a call that sends nothing is the one in flight; it is begun again if a question of `code` came first."""
            if not calls or calls[-1].done():
                calls.append(channel.stream_stream(METHOD)(iter(ended.wait, True)))
            return code(client) == "StatusCode.RESOURCE_EXHAUSTED"

        grpc_server.wait_until(is_held)
        call = channel.unary_unary(METHOD)
        with pytest.raises(grpc.RpcError, match="has 1 request in flight, its limit") as refused:
            call(b"", timeout=20)
        assert ("grpc-retry-pushback-ms", "1000") in [tuple(pair) for pair in refused.value.trailing_metadata()]
        assert client.is_server_ready()
        assert client.get_model_metadata("tiny").name == "tiny"
        calls[-1].cancel()
        ended.set()
        grpc_server.wait_until(lambda: code(client) is None)


def code(client):
    """The status of a refused request over gRPC; None if it is answered."""
    try:
        client.infer("tiny", question())
    except InferenceServerException as refused:
        return refused.status()
    return None


def test_requests_over_both_transports_count_together(ports):
    port, grpc_port = ports
    with in_flight(port), pytest.raises(InferenceServerException, match="has 1 request in flight"):
        ask(f"127.0.0.1:{grpc_port}")
    grpc_server.wait_until(lambda: post(port)[0] == 200)
    assert ask(f"127.0.0.1:{grpc_port}") == [[3, -1]]


def test_with_tokens_each_token_has_its_own_limit(tensors, tmp_path):
    (tmp_path / "tokens").write_text("\n".join(TOKENS))
    options = ("--max-requests-per-client", "1", "--token-file", str(tmp_path / "tokens"))
    with grpc_server.process(tensors, *options) as (port, grpc_port), in_flight(port, token=TOKENS[0]):
        assert post(port, token=TOKENS[0], source="127.0.0.2")[0] == 429
        assert post(port, token=TOKENS[1])[0] == 200
        assert post(port, token="wrong")[0] == 401  # noqa: S106
        assert ask(f"127.0.0.1:{grpc_port}", headers={"authorization": f"Bearer {TOKENS[1]}"}) == [[3, -1]]
        with pytest.raises(InferenceServerException, match="has 1 request in flight"):
            ask(f"127.0.0.1:{grpc_port}", headers={"authorization": f"Bearer {TOKENS[0]}"})


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_limit_that_is_no_number_of_requests_is_refused(number):
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", "x", f"--max-requests-per-client={number}"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert f"{number!r} is no number of requests: give at least 1" in done.stderr
