"""Spans of requests over both transports, as a collector of OpenTelemetry gets them from clients that use its own libraries."""

import base64
import http.client
import json
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from tritonclient.utils import InferenceServerException

from paddleship.errors import BadInput
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.telemetry.spans import Parent, Spans
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.paddleship.shipped.serving.transports.grpc.test_grpc_protection import ask, question, triton
from tests.paddleship.shipped.serving.transports.http.recording import request
from tests.paddleship.shipped.serving.transports.http.running import server

INFER, METHOD = "/v2/models/tiny/infer", "/inference.GRPCInferenceService/ModelInfer"
IDS = ("traceId", "spanId", "parentSpanId")


class Collector(HTTPServer):
    """Reads OTLP by OpenTelemetry's own messages; `resource` and `spans` are what it has got."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.resource, self.spans, self.paths, self.status = {}, [], [], 200

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, sent):
        for span in (span for one in sent["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]):
            span |= {name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in IDS}  # OTLP has them in hexadecimal digits
        for one in json_format.ParseDict(sent, ExportTraceServiceRequest()).resource_spans:
            self.resource = values(one.resource.attributes)
            self.spans += [span for scope in one.scope_spans for span in scope.spans]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.paths.append(self.path)
        if self.server.status == 200:
            self.server.take(sent)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def collecting():
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()


@pytest.fixture
def collector():
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


def values(attributes):
    return {one.key: one.value.int_value or one.value.string_value for one in attributes}


@contextmanager
def traced(sampler=ALWAYS_ON):
    """The headers that a client sends within a span of its own, and that span."""
    carried = {}
    with TracerProvider(sampler=sampler).get_tracer("client").start_as_current_span("a question") as span:
        TraceContextTextMapPropagator().inject(carried)
        yield carried, span.get_span_context()


def post(port, headers, path=INFER, body=None):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, json.dumps(request() if body is None else body), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def is_child(span, parent):
    ids = (span.trace_id, span.parent_span_id) == (parent.trace_id.to_bytes(16, "big"), parent.span_id.to_bytes(8, "big"))
    return ids and len(span.span_id) == 8 and span.span_id != span.parent_span_id


def test_a_request_over_http_is_a_child_of_its_clients_span(tensors, collector):
    with server(tensors, Options(collector=collector.endpoint, service_name="a service")) as port:
        with traced() as (headers, parent):
            assert post(port, headers) == 200
            assert post(port, headers, body={}) == 400
        with traced(ALWAYS_OFF) as (headers, _):
            assert not int(headers["traceparent"].rpartition("-")[2], 16) & 1
            assert post(port, headers) == 200
        assert post(port, {}) == 200
    answered, refused = collector.spans
    assert is_child(answered, parent)
    assert is_child(refused, parent)
    assert (answered.name, answered.kind) == (f"POST {INFER}", Span.SPAN_KIND_SERVER)
    assert values(answered.attributes) == {"http.request.method": "POST", "url.path": INFER, "http.response.status_code": 200}
    assert values(refused.attributes)["http.response.status_code"] == 400
    assert {answered.status.code, refused.status.code} == {Status.STATUS_CODE_UNSET}, "a wrong request is no error of the server"
    assert 0 < answered.end_time_unix_nano - answered.start_time_unix_nano < 10e9
    assert collector.resource["service.name"] == "a service"
    assert len(collector.resource["service.version"]) == 12
    assert set(collector.paths) == {"/v1/traces"}


def test_a_request_over_grpc_is_a_child_of_its_clients_span(tensors, collector):
    with grpc_server.in_process(tensors, protection=Options(collector=collector.endpoint)) as (_, address), traced() as (headers, parent):
        assert ask(address, headers=headers) == [[3, -1]]
        with triton.InferenceServerClient(address) as client, pytest.raises(InferenceServerException):
            client.infer("other", question(), headers=headers)
    answered, refused = collector.spans
    assert is_child(answered, parent)
    assert answered.name == METHOD
    assert values(answered.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": "inference.GRPCInferenceService",
        "rpc.method": "ModelInfer",
        "rpc.grpc.status_code": "",  # 0
    }
    assert values(refused.attributes)["rpc.grpc.status_code"] == 5
    assert collector.resource["service.name"] == "tiny"


def test_an_error_of_the_server_is_one_of_its_span(tensors, collector, monkeypatch):
    monkeypatch.setattr("paddleship.shipped.serving.model.ServedModel.run", lambda *_, **__: 1 / 0)
    with server(tensors, Options(collector=collector.endpoint)) as port, traced() as (headers, _):
        assert post(port, headers) == 500
    (span,) = collector.spans
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "the model failed on this request: see the server's log")


def test_a_server_process_sends_its_spans_to_the_collector_of_the_environment_before_it_ends(tensors, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.endpoint}/")
    with grpc_server.process(tensors) as (port, _), traced() as (headers, parent):
        assert post(port, headers) == 200
    (span,) = collector.spans
    assert is_child(span, parent)


def test_a_collector_that_takes_nothing_is_logged_once_and_harms_no_request(tensors, collector, caplog):
    caplog.set_level("INFO")
    collector.status = 503
    with server(tensors, Options(collector=collector.endpoint)) as port, traced() as (headers, _):
        for status in (503, 503, 200):
            collector.status, count = status, len(collector.paths)
            assert post(port, headers) == 200
            grpc_server.wait_until(lambda count=count: len(collector.paths) > count)
        grpc_server.wait_until(lambda: collector.spans)
    said = [record.getMessage() for record in caplog.records if "the collector" in record.getMessage()]
    assert said == [
        f"the collector {collector.endpoint} takes no spans (status 503): those of these requests are lost",
        f"the collector {collector.endpoint} takes spans again",
    ]


def test_no_more_spans_wait_than_a_bounded_number():
    spans = Spans("http://127.0.0.1:9", dict)
    spans._closing.set()  # nothing is sent
    for _ in range(3000):
        spans.add("x" * 1000, Parent("1" * 32, "2" * 16), 0.1, {"url.path": "x" * 1000}, error=None)
    assert len(spans._waiting) == 2048
    assert len(json.dumps(spans._waiting[0])) < 1000


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector", "http://", "http://collector:port", "http://[collector", ""])
def test_what_is_no_address_of_a_collector_is_refused(address):
    with pytest.raises(BadInput, match=r"is no address: give one such as http://collector:4318"):
        Spans(address, dict)
