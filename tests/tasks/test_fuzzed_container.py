"""The fuzzers of all transports against the real container of an image with 256 MB: no 5xx, no restart, no growth."""

import shutil
import time
from contextlib import closing

import grpc
import pytest

from paddleship.containers import image
from paddleship.containers.sandbox import in_sandbox
from tests.paddleship.shipped.serving.processes.clients import count_of, is_ready, until
from tests.paddleship.shipped.serving.transports import fuzzing
from tests.paddleship.shipped.serving.transports.grpc import test_grpc_fuzzing
from tests.paddleship.shipped.serving.transports.http import test_http_fuzzing, test_openapi

MEMORY_BYTES, MOST_GROWTH = 256_000_000, 0.1
PORTS = (8000, 8001)

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def fuzzed(several, engine, tmp_path_factory):
    """The id of the image of several processes with the model of the fuzzers."""
    context = tmp_path_factory.mktemp("context")
    fuzzing.make(context / "model")
    shutil.copy(context / "model/model.onnx", context)
    lines = [f"FROM {several[1]['image_id']}", "COPY model/candidate.json model/model.onnx /opt/paddleship/model/"]
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")
    built = image.build(engine, context, base_image=several[1]["image_id"], labels={})
    yield built.id
    engine.images.remove(built.id, force=True)


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(4 * 3600)])])
def test_a_container_of_256_mb_survives_the_fuzzers_of_all_transports(fuzzed, engine, runs):
    good, bad, mutants, document = (30, fuzzing.FEW, 1, 4) if runs == 1 else (100, 260, 20, 25)
    with in_sandbox(engine, fuzzed, memory_bytes=MEMORY_BYTES, ports=PORTS) as box:
        address = (box.host, box.published[8000])
        until("it is not ready", lambda: is_ready(address))
        begun, counts, used = box.state["StartedAt"], [0, 0, 0], []
        with closing(grpc.insecure_channel(f"{box.host}:{box.published[8001]}")) as channel:
            for number in range(runs):
                test_http_fuzzing.ask_good(address, good)
                test_http_fuzzing.ask_bad(address, bad, mutants)
                test_grpc_fuzzing.ask_good(channel, good)
                test_grpc_fuzzing.ask_bad(channel, bad, mutants)
                counts[0] += good + bad * (mutants + 1)
                counts[1] += good + bad * (mutants + 1)
                counts[2] += test_openapi.ask_by_document(f"http://{box.host}:{address[1]}", document)
                used.append(box.memory_bytes())
                print(f"run {number + 1}: {counts} requests over HTTP, gRPC and by the document, {used[-1] / 1e6:.1f} MB", flush=True)
        until("a request is not given back", lambda: count_of(address, "paddleship_budget_used_bytes") == 0)
        time.sleep(1.1)  # until each process has published its counts
        for kind in ("defect", "unsendable"):
            assert count_of(address, f'paddleship_failures_total{{kind="{kind}"}}') == 0
        assert count_of(address, "paddleship_processes_replaced_total") == 0
        state = box.state
        assert (state["StartedAt"], state["OOMKilled"], state["Running"]) == (begun, False, True)
        if runs > 1:
            assert used[-1] <= (1 + MOST_GROWTH) * used[1], used
        assert box.stop(timeout_s=30)[1] == 0
