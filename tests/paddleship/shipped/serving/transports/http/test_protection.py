"""A server with tokens, with TLS, and with a line of the log for each request."""

import http.client
import json
import socket
import ssl
import subprocess
import time

import pytest
from starlette.testclient import TestClient

from paddleship.errors import BadInput
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.options import Options, Tokens
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.telemetry.recording import Recorder
from paddleship.shipped.serving.transports import http as transport
from paddleship.shipped.serving.transports.http.app import App
from paddleship.shipped.serving.transports.http.authorization import Authorized
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.request_log import RequestLog
from paddleship.shipped.serving.transports.http.server import Loop, make_server
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports.http.recording import request
from tests.paddleship.shipped.serving.transports.http.running import server

INFER = "/v2/models/tiny/infer"
TOKEN = "a-token-of-a-test"  # noqa: S105
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


def started(folder, around):
    service = Service(lambda: ServedModel(folder), Budget(2**26))
    app = around(App(service, Guard(ConnectionLimits(), service.budget), on_failure=pytest.fail))
    with TestClient(app, raise_server_exceptions=False) as client:
        while client.get("/v2/health/ready").status_code != 200:
            time.sleep(0.01)
        yield client


@pytest.fixture
def protected(tensors):
    yield from started(tensors, lambda app: Authorized(app, Tokens((TOKEN.encode(),))))


@pytest.fixture
def logging_client(tensors):
    yield from started(tensors, lambda app: RequestLog(app, Recorder(logs=True)))


def test_without_a_token_only_health_is_answered(protected):
    for path in ("/v2", "/metrics", "/v2/models/tiny", "/v2/models/tiny/ready", "/nowhere"):
        answer = protected.get(path)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "Bearer TOKEN" in answer.json()["error"]
    assert protected.get("/v2/health/live").status_code == 200
    assert protected.post(INFER, json=request()).status_code == 401
    assert protected.post(INFER, json=request(), headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_with_a_token_a_request_is_answered(protected):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert protected.post(INFER, json=request(), headers=headers).status_code == 200
    assert protected.get("/metrics", headers=headers).status_code == 200


def lines(caplog):
    return [record.fields for record in caplog.records if record.name == "paddleship.shipped.serving.requests"]


@pytest.mark.parametrize(
    ("headers", "body", "number"), [({}, {"id": "7"}, "7"), ({"X-Request-Id": "of the proxy"}, {"id": "7"}, "of the proxy"), ({}, {}, None)]
)
def test_a_request_is_logged_with_its_id_and_its_trace(logging_client, caplog, headers, body, number):
    caplog.set_level("INFO")
    caplog.clear()
    trace = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    logging_client.post(INFER, json=request() | body, headers=headers | trace)
    (fields,) = lines(caplog)
    assert fields["status"] == 200
    assert (fields["trace_id"], fields["span_id"], fields.get("request_id")) == (TRACE, SPAN, number)
    assert fields["request_bytes"] > 50
    assert fields["response_bytes"] > 50
    assert fields["duration_ms"] > 0
    assert "error" not in fields


@pytest.mark.parametrize("trace", ["", "00-0", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE.upper()}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01"])
def test_a_trace_that_is_none_is_left_out_and_an_error_is_logged(logging_client, caplog, trace):
    caplog.set_level("INFO")
    logging_client.post(INFER, content=b"{", headers={"traceparent": trace})
    fields = lines(caplog)[-1]
    assert fields["status"] == 400
    assert "is not JSON" in fields["error"]
    assert "trace_id" not in fields


def test_of_a_long_error_the_beginning_is_logged(logging_client, caplog):
    caplog.set_level("INFO")
    logging_client.post(INFER, json={"inputs": [request()["inputs"][0] | {"name": "x" * 10_000}]})
    assert lines(caplog)[-1]["error"] == f"there is no input '{'x' * 481}"


def test_health_checks_are_not_logged(logging_client, caplog):
    caplog.set_level("INFO")
    caplog.clear()
    logging_client.get("/v2/health/ready")
    assert lines(caplog) == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The files of a certificate for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        [*made, "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture
def over_tls(tensors, pair):
    """The port of a server over TLS."""
    with server(tensors, Options(None, *pair)) as port:
        yield port


def test_over_tls_a_request_is_answered_and_the_health_check_finds_the_server(over_tls, pair):
    assert transport.is_ready(host="127.0.0.1", port=over_tls)
    context = ssl.create_default_context(cafile=pair[0])
    connection = http.client.HTTPSConnection("127.0.0.1", over_tls, timeout=20, context=context)
    for _ in range(2):
        connection.request("POST", INFER, json.dumps(request()))
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["model_name"]) == (200, "tiny")
    connection.close()


def test_a_client_that_does_not_shake_hands_is_closed_as_one_that_sends_no_head(tensors, pair, monkeypatch):
    monkeypatch.setattr(Loop, "handshake_s", 1.0)
    with server(tensors, Options(None, *pair)) as port, socket.create_connection(("127.0.0.1", port), 10) as silent:
        assert silent.recv(1) == b""


def test_a_certificate_that_is_none_is_refused(pair, tmp_path):
    (tmp_path / "certificate").write_text("no certificate")
    guard = Guard(ConnectionLimits(), Budget(1))
    for certificate, key in ((tmp_path / "certificate", pair[1]), (pair[0], tmp_path / "certificate")):
        with pytest.raises(BadInput, match="cannot be used for TLS"):
            make_server(None, guard, host="127.0.0.1", port=0, options=Options(None, certificate, key))
