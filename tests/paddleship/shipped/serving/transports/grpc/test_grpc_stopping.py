"""SIGTERM to a server process under 16 gRPC channels: a request gets its answer, or is refused so that another server can take it."""

import signal
import subprocess
import sys
import threading
from contextlib import closing

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from paddleship.shipped.serving.transports.grpc.messages import SERVICE
from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports import grpc_server

CLIENTS = 16
REQUEST = service_pb2.ModelInferRequest(
    model_name="tiny",
    inputs=[{"name": "x", "datatype": "FP32", "shape": [1, 2]}],
    raw_input_contents=[np.float32([3, 4]).tobytes()],
).SerializeToString()


def client(port, answered, begun, refused):
    """Send one request after the other until one is not answered."""
    with closing(grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])) as channel:
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        call(REQUEST, timeout=30, wait_for_ready=True)
        begun.wait()
        while (code := call.future(REQUEST, timeout=30).code()) is grpc.StatusCode.OK:
            answered.append(code)
        refused.append(code)


@pytest.mark.parametrize("stops", [1, pytest.param(50, marks=pytest.mark.long)])
def test_no_request_is_lost_when_the_server_stops(tmp_path, stops):
    folder = make_tensors(tmp_path)
    for _ in range(stops):
        port, answered, refused, begun = grpc_server.free_port(), [], [], threading.Barrier(CLIENTS)
        command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(grpc_server.free_port())]
        with subprocess.Popen([*command, "--also", f"grpc:{port}"], cwd=grpc_server.REPOSITORY, stderr=subprocess.DEVNULL) as process:
            threads = [threading.Thread(target=client, args=(port, answered, begun, refused)) for _ in range(CLIENTS)]
            for thread in threads:
                thread.start()
            grpc_server.wait_until(lambda answered=answered: len(answered) > 20 * CLIENTS)
            process.send_signal(signal.SIGTERM)
            for thread in threads:
                thread.join()
            assert process.wait(timeout=300) in (0, -signal.SIGTERM)
        assert {*refused} == {grpc.StatusCode.UNAVAILABLE}
