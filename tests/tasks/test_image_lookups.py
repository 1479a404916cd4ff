"""The image in a network whose only name server is `name_server.py`: its server looks up nothing while it starts, answers and stops."""

import json
import time
from pathlib import Path

import pytest

from paddleship.containers import image
from paddleship.containers.sandbox import locked_down
from tests.e2e import name_server

BASE = "python:3.11-slim"
ASK = """
import sys, urllib.request as http
body = sys.argv[1].encode()
for path in ("/v2/health/ready", "/v2/models/linear"):
    http.urlopen("http://127.0.0.1:8000" + path, timeout=60).read()
request = http.Request("http://127.0.0.1:8000/v2/models/linear/infer", body, {"Content-Type": "application/json"})
print(http.urlopen(request, timeout=60).read().decode())
"""
FILES = "import os; print([os.path.join(at, name) for at, _, names in os.walk('/tmp') for name in names])"
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]}]})
WATCHED_S = 30

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def until(what, condition):
    deadline = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


@pytest.fixture
def serve(engine):
    """Start an image beside a name server in a network without a way out; the containers of both."""
    made = []

    def start(image_id, **environment):
        code = Path(name_server.__file__).read_text()
        names = engine.containers.create(BASE, ["python", "-c", code], network_mode="none", dns=["127.0.0.1"])
        made.append(names)
        names.start()
        until("the name server did not start", lambda: b"ready" in names.logs())
        mine = {"network_mode": f"container:{names.id}", "environment": environment}
        served = engine.containers.create(image_id, **locked_down(memory_bytes=10**9), **mine)
        made.append(served)
        served.start()
        return names, served

    yield start
    for container in reversed(made):
        image.remove_container(container)


def answered(names):
    return names.exec_run(["python", "-c", ASK, BODY]).exit_code == 0


def looked_up(names):
    return names.logs().decode().splitlines()[1:]


def test_the_image_looks_up_no_name_and_writes_no_device_id(serve, packaged):
    """The same image with the telemetry of ONNX Runtime, started after it, shows that there was time enough for a look-up."""
    names, served = serve(packaged[1]["image_id"])
    names_of_other, other = serve(packaged[1]["image_id"], ORT_DISABLE_TELEMETRY="0")
    until(f"no answer: {served.logs()}", lambda: answered(names))
    until("no answer", lambda: answered(names_of_other))
    until("the other looked up nothing", lambda: "mobile.events.data.microsoft.com" in looked_up(names_of_other))
    written = [container.exec_run(["python", "-c", FILES]).output.decode() for container in (served, other)]
    assert ["deviceid" in files for files in written] == [False, True], written
    assert written[0].strip() == "[]"
    served.stop(timeout=10)
    assert looked_up(names) == []


@pytest.mark.long
@pytest.mark.parametrize("candidate", ["paddle", "openvino", "paddle-eager"])
def test_the_image_of_another_runtime_looks_up_no_name_and_writes_no_file(serve, benchmarked, copy_of, stage, candidate):
    """For as long as the telemetry of ONNX Runtime takes to look up its host, which the test above waits for, and more."""
    checkout = copy_of(benchmarked, optimize={"candidates": [candidate]})
    for name in ("optimize", "verify", "benchmark", "package"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    names, served = serve(json.loads((checkout / "image.json").read_text())["image_id"])
    until(f"no answer: {served.logs()}", lambda: answered(names))
    time.sleep(WATCHED_S)
    assert served.exec_run(["python", "-c", FILES]).output.decode().strip() == "[]"
    served.stop(timeout=10)
    assert looked_up(names) == []
