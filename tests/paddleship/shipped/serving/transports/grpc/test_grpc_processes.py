"""Several processes over gRPC: each listens on the same port, and a killed one is replaced."""

import time

import numpy as np
import tritonclient.grpc as triton

from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.processes.clients import SCORES, count_of, kill, server, until, workers

CHANNELS = 16


def ask(port):
    """The scores by a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with triton.InferenceServerClient(f"127.0.0.1:{port}", channel_args=options) as client:
        x = triton.InferInput("x", [1, 2], "FP32").set_data_from_numpy(np.float32([[3, 4]]))
        return client.infer("tiny", [x]).as_numpy("scores")[0].tolist()


def test_each_process_answers_over_grpc_and_so_does_a_replacement(tmp_path, free_port):
    folder, port, rpc = make_tensors(tmp_path / "tensors"), free_port(), free_port()
    address = ("127.0.0.1", port)
    with server(folder, port, "--also", f"grpc:{rpc}") as parent:
        for number in range(1, 4):
            assert [ask(rpc) for _ in range(CHANNELS)] == [SCORES] * CHANNELS
            until("some are not counted", lambda number=number: count_of(address, "paddleship_request_seconds_count") == number * CHANNELS)
            if number < 3:
                time.sleep(1.1)  # so that what the process has counted is published
                kill(workers(parent.pid)[0])
                until("it is not replaced", lambda number=number: count_of(address, "paddleship_processes_replaced_total") == number)
                until("it is not ready", lambda: count_of(address, "paddleship_processes") == 2)
