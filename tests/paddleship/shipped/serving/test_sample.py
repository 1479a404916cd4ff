"""What a server counts of its requests: off by default, bounded, without text, and never at the cost of an answer."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.features import Bins
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.sample import SUFFIX, RequestSample
from tests.paddleship.shipped.serving.candidates import make_candidate
from tests.paddleship.shipped.serving.processes.clients import Clients, server, until
from tests.paddleship.shipped.serving.transports.http.recording import request
from tests.paddleship.shipped.serving.transports.http.test_serving import ready, tensors, wait_until_ready  # noqa: F401 a fixture

PROFILE = {
    "rows": 100,
    "left_out": [],
    "features": [{**Bins(f"x[{place}]", low=0, high=10, cuts=(5.0,)).to_dict(), "counts": [0, 50, 50, 0]} for place in range(2)],
}


@pytest.fixture
def profiled(tensors, tmp_path):  # noqa: F811
    """The candidate of the server's tests with a training profile."""
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "model.onnx").write_bytes((tensors / "model.onnx").read_bytes())
    Candidate(**{**Candidate.load(tensors).__dict__, "profile": PROFILE}).save(folder)
    return folder


def rows_of(path):
    return sum(hour["rows"] for hour in json.loads(path.read_text())["hours"].values())


def counts_of(path):
    (hour,) = json.loads(path.read_text())["hours"].values()
    return hour["counts"]


@pytest.fixture
def offered(profiled, tmp_path):
    """Count rows in a sample whose clock is given; what it does in its thread is called by hand."""
    moment = [datetime(2026, 11, 23, 12, tzinfo=UTC)]
    sample = RequestSample(tmp_path / f"s{SUFFIX}", Candidate.load(profiled), every_s=0, now=lambda: moment[0])

    def offer(*values, later=timedelta()):
        moment[0] += later
        for value in values:
            sample.offer([{"x": np.full(2, value, np.float32)}], {})
            sample._count()
        sample._write()
        return sample

    return offer


def test_without_the_option_nothing_is_written(profiled, tmp_path):
    for client in ready(profiled):
        assert client.post("/v2/models/tiny/infer", json=request()).status_code == 200
    assert not list(tmp_path.glob(f"**/*{SUFFIX}"))


def test_answered_rows_are_counted_and_refused_ones_are_not(profiled, tmp_path):
    path = tmp_path / f"s/s{SUFFIX}"
    for client in ready(profiled, sample=path):
        assert client.post("/v2/models/tiny/infer", json=request(data=[3, 40])).status_code == 200
        assert client.post("/v2/models/tiny/infer", json=request(data=[3, 400])).status_code == 400
    assert counts_of(path) == [[0, 1, 0, 0], [0, 0, 0, 1]]
    found = json.loads(path.read_text())
    assert found["candidate_digest"] == Candidate.load(profiled).digest
    assert found["profile"] == PROFILE


def test_no_character_of_a_text_is_kept(tmp_path):
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Cast", ["ids"], ["values"], to=TensorProto.FLOAT)]
    specs = [TensorSpec("ids", "int64", ("batch", "length"))], [TensorSpec("values", "float32", ("batch", "length"))]
    preprocess = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["好"], "max_length": 4, "multiple_of": 2}
    bins = [Bins(f"text.{name}", values=(1.0,)).to_dict() for name in ("length", "unknown_share", "rarity")]
    profile = {"rows": 1, "left_out": [], "features": [{**item, "counts": [1, 0]} for item in bins]}
    make_candidate(tmp_path, nodes, *specs, preprocess=preprocess | {"unicode_form": "NFKC"}, profile=profile)
    path = tmp_path / f"s{SUFFIX}"
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["secret"]}]}
    for client in ready(tmp_path, sample=path):
        assert client.post("/v2/models/tiny/infer", json=body).status_code == 200
    assert counts_of(path) == [[0, 1], [1, 0], [0, 1]]
    assert "secret" not in path.read_text()


def test_the_file_grows_with_neither_requests_nor_time(offered, tmp_path):
    for hour in range(200):
        offer = offered(hour % 7, later=timedelta(hours=1))
    size = (tmp_path / f"s{SUFFIX}").stat().st_size
    assert len(offer._hours) == 168
    offered(*range(300))
    assert (tmp_path / f"s{SUFFIX}").stat().st_size < size + 20
    for value in range(100):
        offer.offer([{"x": np.full(2, value, np.float32)}], {})
    assert len(offer._waiting) == 16


def test_an_hour_of_a_wrong_clock_is_dropped_when_the_clock_is_right_again(offered):
    offered(1, later=timedelta(days=4000))
    assert list(offered(1, later=timedelta(days=-4000))._hours) == ["2026-11-23T12"]


def test_a_restarted_server_goes_on_and_another_candidate_begins_anew(offered, profiled, tmp_path):
    path = tmp_path / f"s{SUFFIX}"
    offered(1, 2)
    candidate, now = Candidate.load(profiled), lambda: datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert [hour["rows"] for hour in RequestSample(path, candidate, now=now)._hours.values()] == [2]
    assert RequestSample(path, Candidate(**{**candidate.__dict__, "max_batch": 3}), now=now)._hours == {}
    for harm in ("", "{", '{"hours": {"x": {"rows": 1, "counts": [[1]]}}}'):
        path.write_text(harm)
        assert RequestSample(path, candidate, now=now)._hours == {}


def test_a_place_that_cannot_be_written_costs_no_answer_and_is_logged_once(profiled, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    for client in ready(profiled, sample=tmp_path / f"file/s{SUFFIX}"):
        for _ in range(2):
            assert client.post("/v2/models/tiny/infer", json=request()).status_code == 200
    assert caplog.text.count("the request sample cannot be written") == 1


def test_a_feature_that_fails_ends_the_sample_and_costs_no_answer(profiled, tmp_path, caplog):
    model = ServedModel(profiled, sample=tmp_path / f"s{SUFFIX}")
    model._sample._features = None
    for _ in range(3):
        assert model.predict({"x": [[3, 4]]})["label"] == ["否"]
    model.close()
    assert caplog.text.count("the request sample ends here") == 1


def test_a_candidate_without_a_profile_is_served_and_the_log_says_so(tensors, tmp_path, caplog):  # noqa: F811
    for client in ready(tensors, sample=tmp_path / f"s{SUFFIX}"):
        assert client.post("/v2/models/tiny/infer", json=request()).status_code == 200
    assert "no training profile" in caplog.text
    assert not list(tmp_path.glob(f"*{SUFFIX}"))


def test_files_of_servers_that_ended_long_ago_are_removed(profiled, tmp_path):
    for name, age in (("old", 8 * 86400), ("recent", 86400)):
        (tmp_path / f"{name}{SUFFIX}").write_text("{}")
        os.utime(tmp_path / f"{name}{SUFFIX}", (time.time() - age,) * 2)
    ServedModel(profiled, sample=tmp_path / f"s{SUFFIX}").close()
    assert {path.name.removesuffix(SUFFIX) for path in tmp_path.glob(f"*{SUFFIX}")} == {"recent", "s"}


def test_a_server_that_is_stopped_has_written_everything_and_one_that_is_killed_leaves_a_whole_file(profiled, tmp_path):
    for number in (signal.SIGTERM, signal.SIGKILL):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(profiled), "--port", str(port)]
        process = subprocess.Popen([*command, "--sample", str(tmp_path / "samples")], stderr=subprocess.PIPE, text=True)
        wait_until_ready(port, process)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v2/models/tiny/infer", json.dumps(request()))
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(number)
        process.communicate(timeout=300)
        (path,) = (tmp_path / "samples").glob(f"*-{port}{SUFFIX}")
        assert rows_of(path) == (1 if number == signal.SIGTERM else 0)
        assert not list((tmp_path / "samples").glob(".*"))


def test_each_of_several_processes_has_a_file_of_its_own(profiled, tmp_path, free_port):
    port, folder = free_port(), tmp_path / "samples"
    with server(profiled, port, "--sample", str(folder)):
        clients = Clients(("127.0.0.1", port), 16)
        until("too few answers", lambda: all(clients.counts))
        clients.end()
    files = sorted(path.name for path in folder.iterdir())
    assert files == [f"{socket.gethostname()}-{port}-1{SUFFIX}", f"{socket.gethostname()}-{port}{SUFFIX}"]
    assert all(rows_of(folder / name) >= 1 for name in files)
