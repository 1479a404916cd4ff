"""What protects the server over HTTP protects it over gRPC too: tokens, TLS, a queue that refuses what would come too late, and a log."""

import threading
import time

import grpc as grpc_library
import numpy as np
import pytest
from tritonclient import grpc as triton
from tritonclient.utils import InferenceServerException

from paddleship.shipped.serving.errors import Kind, ServingError, expired
from paddleship.shipped.serving.options import Options, Tokens
from paddleship.shipped.serving.transports.grpc import statuses
from paddleship.shipped.serving.transports.grpc.messages import SERVICE
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.paddleship.shipped.serving.transports.http.test_protection import pair

__all__ = ["pair"]
TOKEN = b"a-token-of-32-characters-or-more"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def question():
    made = triton.InferInput("x", [1, 2], "FP32")
    made.set_data_from_numpy(np.float32([[1, 2]]))
    return [made]


def ask(address, **options):
    with triton.InferenceServerClient(address, **options.pop("client", {})) as client:
        return client.infer("tiny", question(), **options).as_numpy("scores").tolist()


@pytest.fixture(scope="module")
def protected(tmp_path_factory):
    folder = make_tensors(tmp_path_factory.mktemp("protected"))
    with grpc_server.in_process(folder, protection=Options(Tokens((TOKEN,)))) as (service, address):
        yield service, address


@pytest.mark.parametrize("headers", [None, {"authorization": "Bearer wrong-token-of-32-characters"}, {"authorization": TOKEN.decode()}])
def test_without_a_token_only_health_is_answered(protected, headers):
    with pytest.raises(InferenceServerException, match="this server wants a token") as caught:
        ask(protected[1], headers=headers)
    assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
    with triton.InferenceServerClient(protected[1]) as client:
        assert client.is_server_live(headers=headers)
        assert client.is_server_ready(headers=headers)
        with pytest.raises(InferenceServerException, match="wants a token"):
            client.get_model_metadata("tiny", headers=headers)


def test_clients_that_send_no_message_keep_no_other_from_asking_for_health(protected):
    ended = threading.Event()
    with grpc_library.insecure_channel(protected[1]) as channel, triton.InferenceServerClient(protected[1]) as client:
        silent = [channel.stream_stream(f"/{SERVICE}/{method}")(iter(ended.wait, True)) for method in ("ServerLive", "ServerReady") * 20]
        time.sleep(0.2)
        for _ in range(100):
            assert client.is_server_live(client_timeout=2)
            assert client.is_server_ready(client_timeout=2)
        for call in silent:
            call.cancel()
        ended.set()


def test_with_a_token_a_request_is_answered(protected):
    assert ask(protected[1], headers={"authorization": f"Bearer {TOKEN.decode()}"}) == [[3, -1]]


def test_over_tls_a_request_is_answered_and_one_without_is_not(tmp_path, pair):
    certificate, key = pair
    with grpc_server.in_process(make_tensors(tmp_path), protection=Options(None, certificate, key)) as (_, address):
        assert ask(address, client={"ssl": True, "root_certificates": str(certificate)}) == [[3, -1]]
        with pytest.raises(InferenceServerException):
            ask(address, client_timeout=2)


def test_what_gets_no_answer_is_counted_by_its_kind(protected):
    service, address = protected
    before = service.failures[Kind.UNKNOWN_MODEL]
    with triton.InferenceServerClient(address) as client, pytest.raises(InferenceServerException, match="no model 'other'"):
        client.infer("other", question(), headers={"authorization": f"Bearer {TOKEN.decode()}"})
    assert service.failures[Kind.UNKNOWN_MODEL] == before + 1


def test_the_time_limit_of_a_request_holds_as_over_http(tmp_path):
    with grpc_server.in_process(make_tensors(tmp_path)) as (service, address):
        assert ask(address, timeout=20_000_000) == ask(address, timeout=0) == [[3, -1]]
        with pytest.raises(InferenceServerException, match="the time limit of the request has passed") as caught:
            ask(address, timeout=1)
        assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
        assert service.failures[Kind.EXPIRED] == 1
        with pytest.raises(InferenceServerException, match="send microseconds, a whole number; 0 for no limit"):
            ask(address, parameters={"timeout": "soon"})


def test_every_kind_has_a_code():
    assert set(statuses.CODES) == set(Kind)
    assert statuses.status(expired())[0] is grpc_library.StatusCode.DEADLINE_EXCEEDED
    assert statuses.status(ServingError(Kind.BUSY, "busy"))[0] is grpc_library.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(("kind", "metadata"), [(Kind.BUSY, (("grpc-retry-pushback-ms", "7000"),)), (Kind.STOPPING, ()), (Kind.DEFECT, ())])
def test_a_client_learns_when_to_ask_this_server_again(kind, metadata):
    assert statuses.status(ServingError(kind, "", retry_s=7))[2] == metadata


@pytest.fixture(scope="module")
def logging_server(tmp_path_factory):
    folder = make_tensors(tmp_path_factory.mktemp("logging"))
    with grpc_server.in_process(folder, protection=Options(Tokens((TOKEN,)), logs_requests=True)) as (_, address):
        yield address


@pytest.fixture
def lines(caplog):
    """The lines of the log since the last call, once there are so many: a server writes them after its answers."""
    caplog.set_level("INFO")

    def find(count):
        grpc_server.wait_until(lambda: len(caplog.records) >= count)
        found = [(record.getMessage(), record.fields) for record in caplog.records if record.name == "paddleship.shipped.serving.requests"]
        caplog.clear()
        return found

    return find


@pytest.mark.parametrize(("more", "number"), [({}, "7"), ({"x-request-id": "of the proxy"}, "of the proxy")])
def test_a_request_is_logged_with_its_id_and_its_trace(logging_server, lines, more, number):
    headers = {"authorization": f"Bearer {TOKEN.decode()}", "traceparent": f"00-{TRACE}-{SPAN}-01"}
    assert ask(logging_server, request_id="7", headers=headers | more) == [[3, -1]]
    ((message, fields),) = lines(1)
    assert message == f"/{SERVICE}/ModelInfer"
    assert (fields["code"], fields["request_id"], fields["trace_id"], fields["span_id"]) == ("OK", number, TRACE, SPAN)
    assert fields["request_bytes"] > 30
    assert fields["response_bytes"] > 30
    assert fields["duration_ms"] > 0
    assert "error" not in fields


def test_a_refused_request_is_logged_with_its_reason_and_health_is_not(logging_server, lines):
    with triton.InferenceServerClient(logging_server) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
    for headers in ({}, {"authorization": f"Bearer {TOKEN.decode()}", "traceparent": "no trace"}):
        with pytest.raises(InferenceServerException), triton.InferenceServerClient(logging_server) as client:
            client.infer("other", question(), headers=headers)
    (_, without_token), (_, refused) = lines(2)
    assert (without_token["code"], refused["code"]) == ("UNAUTHENTICATED", "NOT_FOUND")
    assert "wants a token" in without_token["error"]
    assert "there is no model 'other'" in refused["error"]
    assert "trace_id" not in refused
    assert refused["response_bytes"] == 0


def test_a_request_whose_client_has_gone_is_logged_as_cancelled(tmp_path, lines):
    held = threading.Event()
    with grpc_server.in_process(make_tensors(tmp_path), protection=Options(logs_requests=True)) as (service, address):
        service._thread.submit(held.wait, 20)
        service._quick_from = float("inf")
        with triton.InferenceServerClient(address) as client:
            call = client.async_infer("tiny", question(), lambda **_: None, headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
            grpc_server.wait_until(lambda: service.budget.used)
            call.cancel()
            grpc_server.wait_until(lambda: not service.budget.used)
        held.set()
    ((_, fields),) = lines(2)  # the first one says that the server is ready
    assert (fields["code"], fields["trace_id"], fields["response_bytes"]) == ("CANCELLED", TRACE, 0)
