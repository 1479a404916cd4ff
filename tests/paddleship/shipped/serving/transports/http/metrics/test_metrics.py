"""What `/metrics` counts, read by Prometheus's own parser."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from paddleship.shipped.serving.errors import Kind
from paddleship.shipped.serving.stages import Histogram
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports.http.recording import request
from tests.paddleship.shipped.serving.transports.http.test_serving import ready

INFER = "/v2/models/tiny/infer"


@pytest.fixture
def client(tmp_path):
    yield from ready(make_tensors(tmp_path))


def samples(client):
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.documentation and family.type in ("counter", "gauge", "histogram") for family in families)
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


def test_each_stage_counts_each_answered_request_once_and_the_batch_its_rows(client):
    for rows in (1, 2, 5):
        body = request(shape=[rows, 2], data=[[1, 2]] * rows)
        assert client.post(INFER, json=body).status_code == 200
    seen = samples(client)
    assert seen["paddleship_request_seconds_count",] == 3
    for stage in ("queue", "preprocess", "infer", "postprocess"):
        assert seen["paddleship_stage_seconds_count", ("stage", stage)] == 3
        assert seen["paddleship_stage_seconds_bucket", ("le", "+Inf"), ("stage", stage)] == 3
        assert 0 < seen["paddleship_stage_seconds_sum", ("stage", stage)] < seen["paddleship_request_seconds_sum",]
    assert seen["paddleship_batch_rows_sum",] == 8
    assert [seen["paddleship_batch_rows_bucket", ("le", le)] for le in ("1", "2", "4", "8", "+Inf")] == [1, 2, 2, 3, 3]


def test_failures_are_counted_by_kind(client):
    client.post(INFER, content=b"{")
    client.post(INFER, json=request(data=[1]))
    client.post("/v2/models/other/infer", json=request())
    client.post(INFER, json=request() | {"parameters": {"timeout": 1}})
    client.post(INFER, json=request(data=[-1, 0]))
    seen = samples(client)
    counted = {kind: seen["paddleship_failures_total", ("kind", kind.replace(" ", "_"))] for kind in Kind}
    assert {kind: count for kind, count in counted.items() if count} == {
        Kind.BAD_REQUEST: 2,
        Kind.UNKNOWN_MODEL: 1,
        Kind.EXPIRED: 1,
        Kind.UNSENDABLE: 1,
    }
    assert seen["paddleship_request_seconds_count",] == 0


def test_the_candidate_and_the_process_are_named(client):
    seen = samples(client)
    ((_, *labels),) = (key for key in seen if key[0] == "paddleship_info")
    metadata = client.get("/v2/models/tiny").json()
    named = dict(labels)
    assert named["version"] == metadata["versions"][0]
    assert (named["model"], named["runtime"], named["precision"]) == ("tiny", "onnxruntime", "float32")
    assert named["candidate_digest"] == metadata["parameters"]["candidate_digest"]
    assert seen["paddleship_ready",] == 1
    assert seen["process_resident_memory_bytes",] > 2**20
    assert seen["process_start_time_seconds",] > 1e9


def test_a_bucket_holds_what_is_at_most_its_bound():
    histogram = Histogram((1, 2, 4))
    for value in np.arange(0.5, 5.5, 0.5):
        histogram.add(value)
    histogram.add(2, times=3)
    assert histogram.counts == [2, 5, 4, 2]
    assert histogram.sum == pytest.approx(27.5 + 6)
