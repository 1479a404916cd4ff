"""What protects the server over HTTP protects it over gRPC too: tokens, TLS, and a queue that refuses what would come too late."""

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
