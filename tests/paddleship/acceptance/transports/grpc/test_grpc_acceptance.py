"""The acceptance test over gRPC, with servers as in an image of 256 MB."""

from contextlib import closing

import numpy as np
import pytest

from paddleship.acceptance.observing import observe
from paddleship.acceptance.transport import Malformed, Outcome, ServerError
from paddleship.acceptance.transports import other_server, server_at
from paddleship.acceptance.transports.grpc.server import GrpcServer
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.shipped.serving.candidates import make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.pictures import drawn, encoded

MEMORY = ("--memory-bytes", str(256 * 10**6))
COLUMNS = {
    make_tensors: {"x": [[3.0, 4.0], [1.5, 2.0], [7.0, 0.5]]},
    make_texts: {"text": ["好", "好x好", "x"]},
    make_pictures: {"photo": [encoded(drawn(seed=seed)) for seed in range(3)]},
}


def test_an_accepted_server_is_accepted_over_grpc(tmp_path):
    for make, columns in COLUMNS.items():
        folder = make(tmp_path / make.__name__)
        candidate = Candidate.load(folder)
        encoders = preprocess.build(candidate.preprocess, candidate.inputs)
        batches = [columns, *({name: values[:1] for name, values in columns.items()} for _ in range(2))]
        with grpc_server.process(folder, *MEMORY) as (http_port, port):
            server = other_server("grpc", "127.0.0.1", port, beside=server_at("127.0.0.1", http_port, model="tiny"), model="tiny")
            observed = observe(server, batches=batches, pads={}, requests=20, concurrency=4, malformed=encoders.malformed)
        assert observed.faults == observed.hostile == []
        assert observed.transport == "grpc"
        assert observed.candidate_digest == candidate.digest
        assert not observed.load.failures
        assert not observed.concurrent_load.failures
        assert len(observed.answers[0][candidate.outputs[0].name]) == 3
        assert observed.example["answer"]["outputs"][0]["data"]


def test_a_server_that_answers_what_it_must_refuse_is_found(tmp_path):
    with grpc_server.process(make_tensors(tmp_path)) as (http_port, port):
        server = other_server("grpc", "127.0.0.1", port, beside=server_at("127.0.0.1", http_port, model="tiny"), model="tiny")
        with closing(server.connect()) as client:
            good = server.encode({"x": np.float32([[3, 4]])})
            assert client.ready().outcome is Outcome.ANSWERED
            assert client.provoke(Malformed("a good one", good, server.refusals)).outcome is Outcome.ANSWERED
            assert client.provoke(Malformed("no message", b"\xff", server.refusals)).code == 3


def test_no_server_is_an_error_of_the_test():
    server = GrpcServer("127.0.0.1", grpc_server.free_port(), model="tiny", parameters={}, timeout_s=5)
    with closing(server.connect()) as client, pytest.raises(ServerError, match="does not answer"):
        client.ready()
