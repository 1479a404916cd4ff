"""The server over real ONNX candidates, in process through ASGI, and as the process that runs in the image."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from starlette.testclient import TestClient

from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.transports.http.app import App
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.inference import JsonModel
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from tests.paddleship.shipped.serving.candidates import make_candidate, make_picking, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports.http.recording import RECORDED, answers, pick, request

REPOSITORY = Path(__file__).parents[6]


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return make_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def client(tensors):
    yield from ready(tensors, max_batch=256)


@pytest.fixture
def text_client(texts):
    yield from ready(texts)


def ready(folder, *, in_flight_bytes=2**26, load=ServedModel, **options):
    failures = []
    service = Service(lambda: load(folder, **options), Budget(in_flight_bytes))
    app = App(service, Guard(ConnectionLimits(), service.budget), on_failure=failures.append)
    with TestClient(app, raise_server_exceptions=False) as client:
        deadline = time.monotonic() + 300
        while client.get("/v2/health/ready").status_code != 200:
            assert not failures, failures
            assert time.monotonic() < deadline
        yield client


def test_every_answer_is_the_recorded_one_byte_by_byte(tmp_path):
    """Recorded from the server as it was before it had a core; recording.py says how to record answers that are meant to change."""
    recorded, answered = json.loads(RECORDED.read_text(encoding="utf-8")), answers(REPOSITORY, tmp_path)
    assert answered.keys() == recorded.keys()
    for kind, calls in recorded.items():
        assert answered[kind] == calls


def test_health_and_metadata_say_what_the_model_takes(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/models/tiny/ready").status_code == 200
    metadata = client.get("/v2/models/tiny").json()
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert [output["name"] for output in metadata["outputs"]] == ["scores", "logs", "label"]
    assert len(metadata["parameters"]["candidate_digest"]) == 64
    assert client.get("/v2").json()["name"] == "paddleship"


def test_while_the_model_loads_requests_are_a_503_that_says_when_to_ask_again(tensors):
    loading, failures = threading.Event(), []
    service = Service(lambda: loading.wait(300) and ServedModel(tensors), Budget(2**26))
    with TestClient(App(service, Guard(ConnectionLimits(), service.budget), on_failure=failures.append)) as client:
        assert client.get("/v2/health/live").status_code == 200
        assert (client.get("/v2/health/ready").status_code, client.get("/v2/health/ready").json()) == (503, {"ready": False})
        refused = client.post("/v2/models/tiny/infer", json=request())
        loading.set()
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.json() == {"error": "the model is still loading: try again when /v2/health/ready answers 200"}
    assert not failures


def test_an_answer_carries_scores_and_the_name_of_the_class(client):
    answer = client.post("/v2/models/tiny/infer", json={"id": "7", **request(), "outputs": [{"name": "label"}, {"name": "scores"}]}).json()
    assert answer["id"] == "7"
    assert answer["outputs"] == [
        {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["否"]},
        {"name": "scores", "datatype": "FP32", "shape": [1, 2], "data": [7.0, -3.0]},
    ]


def test_nested_data_is_taken_as_well_as_flat(client):
    body = {"outputs": [{"name": "scores"}]} | request(shape=[2, 2], data=[[1, 2], [3, 4]])
    assert client.post("/v2/models/tiny/infer", json=body).json()["outputs"][0]["data"] == [3.0, -1.0, 7.0, -3.0]


def test_text_is_answered_in_batches_and_alone(text_client):
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["好", "好x好"]}]}
    output = text_client.post("/v2/models/tiny/infer", json=body).json()["outputs"][0]
    assert output["shape"] == [2, 4]
    assert output["data"] == [2, 0, 0, 0, 2, 1, 2, 0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "no 'inputs' list"),
        ({"inputs": [1, 2]}, "'inputs' holds '1', which is no tensor: send {"),
        ({"inputs": []}, "input 'x' is missing"),
        ({"inputs": request()["inputs"] * 2}, "input 'x' is given twice"),
        (request(name="z"), "there is no input 'z': this model takes x"),
        (request(datatype="FP64"), "send FP32"),
        (request(datatype="WHAT"), "send FP32"),
        (request(shape=[1, 3]), "has 2 values, its shape [1, 3] needs 3"),
        (request(shape=[2]), "the model takes [-1, 2]"),
        (request(shape=[2, 1]), "shape [1] per row, the model takes [2]"),
        (request(shape="x"), "give a list of whole numbers"),
        (request(shape=[-1, 2]), "give a list of whole numbers"),
        (request(data=[1, "a"]), "the data of tensor 'x' hold text: send FP32 values"),
        (request(data=[[1], [{}]]), "the data of tensor 'x' hold an object: send FP32 values"),
        (request(data=[[1, None]]), "the data of tensor 'x' hold null: send FP32 values"),
        (request(data=[[1], [2, 3]], shape=[1, 3]), "not numbers in rows of one length"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [NaN, 1]}]}', "not JSON (JSON has no NaN or Infinity)"),
        (b'{"inputs": [{"name": "NaN"', "not JSON (unexpected end of data"),
        (request(data=[1, None], shape=[1, 2]), "the data of tensor 'x' hold null"),
        (request(data=[1, True]), "the data of tensor 'x' hold true or false: send FP32 values"),
        (request(data=[[False, 7]], shape=[1, 2]), "the data of tensor 'x' hold true or false: send FP32 values"),
        (request(data=None), "no 'data' list"),
        (request(data=[1, 101]), "outside -1 … 100"),
        (request(data=[], shape=[0, 2]), "no rows, this server takes 1 to 256: send at least one"),
        (request(data=[1] * 2000, shape=[1000, 2]), "has 1000 rows, this server takes 1 to 256: split it"),
        (request(name=[1]), "there is no input [1]"),
        (request(data=[], shape=[2**32, 2**32]), "has 0 values"),
        (request(data=[], shape=[2, 0]), "its rows are empty"),
        (request(data=[[1, 2, 3, 4]], shape=[2, 2]), "data nested as [1, 4]"),
        ({**request(), "outputs": [{"name": [1]}]}, "there is no output [1]"),
        ({**request(), "outputs": {}}, "'outputs' must be a list"),
        ({**request(), "outputs": [{"name": "z"}]}, "there is no output 'z'"),
        ({**request(), "outputs": "all"}, "'outputs' must be a list"),
    ],
)
def test_a_bad_request_is_a_400_that_says_what_to_send(client, body, words):
    answer = client.post("/v2/models/tiny/infer", **({"content": body} if isinstance(body, bytes) else {"json": body}))
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert client.get("/v2/health/ready").status_code == 200


@pytest.mark.parametrize(("data", "words"), [([7], "must be text"), ([""], "is empty")])
def test_a_bad_text_is_a_400(text_client, data, words):
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": data}]}
    answer = text_client.post("/v2/models/tiny/infer", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_an_answer_that_json_cannot_carry_is_a_500_that_says_so(client):
    answer = client.post("/v2/models/tiny/infer", json=request(data=[-1, 0]))
    assert answer.status_code == 500
    assert "NaN or infinity" in answer.json()["error"]


def test_other_paths_and_models_are_404_and_methods_405(client):
    assert "there is no model 'other'" in client.post("/v2/models/other/infer", json=request()).json()["error"]
    nowhere = client.get("/nowhere")
    assert nowhere.status_code == 404
    assert client.post("/v2/models/tiny/infer/", json=request(), follow_redirects=False).status_code == 404
    assert "there is no path '/nowhere': send requests to /v2/models/" in nowhere.json()["error"]
    refused = client.get("/v2/models/tiny/infer")
    assert (refused.status_code, refused.json()) == (405, {"error": "GET is not allowed here: use POST"})


def test_versioned_paths_answer_and_other_versions_are_404(client):
    (version,) = client.get("/v2/models/tiny").json()["versions"]
    path = f"/v2/models/tiny/versions/{version}"
    assert client.get(path).json() == client.get("/v2/models/tiny").json()
    assert client.get(f"{path}/ready").status_code == 200
    answer = client.post(f"{path}/infer", json=request()).json()
    assert answer["model_version"] == version
    assert answer["outputs"] == client.post("/v2/models/tiny/infer", json=request()).json()["outputs"]
    other = client.post("/v2/models/tiny/versions/7/infer", json=request())
    assert other.status_code == 404
    assert f"there is no version '7' of 'tiny': this server has '{version}'" in other.json()["error"]


def test_a_body_beyond_what_the_model_can_take_is_a_413_that_names_the_limit(tensors):
    for client in ready(tensors, max_batch=4):
        limit = 4 * 2 * 64 + 2**16  # rows, values, bytes of a value, envelope
        fitting, beyond = (json.dumps(request()).ljust(size) for size in (limit, limit + 1))
        assert client.post("/v2/models/tiny/infer", content=fitting).status_code == 200
        answer = client.post("/v2/models/tiny/infer", content=beyond)
        assert answer.status_code == 413
        assert f"larger than the {limit} bytes that this server takes in up to 4 rows" in answer.json()["error"]
        assert client.post("/v2/models/tiny/infer", content=iter([beyond.encode()])).status_code == 413, "without a Content-Length"


@pytest.mark.parametrize("filler", ["{},", "[],", "1,", "[[1],[2]],"])
def test_a_body_of_too_many_values_is_a_413_before_anything_is_made_of_it(tensors, filler, monkeypatch):
    for client in ready(tensors, max_batch=4096):
        monkeypatch.setattr(JsonModel, "parse", lambda *_: pytest.fail("the body was parsed"))
        body = "[" + filler * (200_000 // len(filler)) + "1]"
        answer = client.post("/v2/models/tiny/infer", content=body)
        assert answer.status_code == 413
        assert "32768" in answer.json()["error"]


def test_the_largest_honest_body_is_taken_flat_nested_and_in_any_spacing(tensors):
    for client in ready(tensors, max_batch=4096):
        rows = np.random.default_rng(0).uniform(0, 1, (4096, 2)).tolist()
        flat = [value for row in rows for value in row]
        for data, spacing in ((flat, {}), (rows, {}), (rows, {"indent": 2}), ([[1e-5 / 3, 0.1]] * 4096, {})):
            body = json.dumps(request(shape=[4096, 2], data=data) | {"outputs": [{"name": "scores"}]}, **spacing)
            assert client.post("/v2/models/tiny/infer", content=body).status_code == 200


def test_beyond_the_budget_a_request_is_a_503_and_the_room_comes_back(tensors):
    for client in ready(tensors, in_flight_bytes=1000):
        assert client.post("/v2/models/tiny/infer", json=request()).status_code == 200
        answer = client.post("/v2/models/tiny/infer", content=json.dumps(request()).ljust(1001))
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "1"
        assert "1000 bytes" in answer.json()["error"]
        for body in (json.dumps(request()).ljust(1000), b"{".ljust(1000), json.dumps(request()).ljust(1000)):
            assert client.post("/v2/models/tiny/infer", content=body).status_code in (200, 400)


def test_an_answer_says_what_was_cut_of_a_text(text_client):
    texts = ["好x好x", "好x好xx", "  好 ", "x" * 5000]
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [4], "data": texts}]}
    answer = text_client.post("/v2/models/tiny/infer", json=body).json()
    assert answer["parameters"] == {
        "truncated": [{"input": "text", "row": 1, "length": 5, "kept": 4}, {"input": "text", "row": 3, "length": 5000, "kept": 4}]
    }
    body["inputs"][0] |= {"shape": [2], "data": ["好", "好x好x"]}
    assert "parameters" not in text_client.post("/v2/models/tiny/infer", json=body).json()


def test_text_of_any_characters_is_taken_however_it_is_escaped(text_client):
    for text in ("[{,}]" * 3000, "😀" * 3000, '"' * 3000):
        body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [16], "data": [text] * 16}]}
        assert text_client.post("/v2/models/tiny/infer", content=json.dumps(body)).status_code == 200


def test_text_that_would_take_long_to_normalise_is_a_400(text_client):
    marks = "a" + "\u0301\u0316" * 20_000
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["好", marks]}]}
    answer = text_client.post("/v2/models/tiny/infer", json=body)
    assert answer.status_code == 400
    assert "more than 64 combining marks in a row" in answer.json()["error"]
    body["inputs"][0]["data"][1] = "a\u0301\u0316" * 2000
    assert text_client.post("/v2/models/tiny/infer", json=body).status_code == 200


@pytest.fixture(scope="module")
def picking(tmp_path_factory):
    return make_picking(tmp_path_factory.mktemp("picking"))


def test_what_the_runtime_refuses_because_of_its_input_is_a_422_with_its_reason(picking):
    for client in ready(picking):
        answer = client.post("/v2/models/tiny/infer", json=pick(4))
        assert answer.status_code == 422
        assert "the model does not take this input" in answer.json()["error"]
        assert "GatherElements" in answer.json()["error"]
        assert client.post("/v2/models/tiny/infer", json=pick(3)).status_code == 200
        assert client.get("/v2/health/ready").status_code == 200


class Breaking(ServedModel):
    """A model whose runtime answers nothing any more after an input of 99, until it is told to."""

    broken, also_wrong = False, False

    def __init__(self, folder, **settings):
        super().__init__(folder, **settings)
        whole = self._runtime

        class Runtime:
            def run(_, batch):
                if batch["x"].max() == 99:
                    Breaking.broken = True
                if Breaking.broken and not (Breaking.also_wrong and batch["x"].max() < 99):
                    raise RuntimeError("out of order")
                answer = whole.run(batch)
                return {name: array + 1 for name, array in answer.items()} if Breaking.broken else answer

        self._runtime = Runtime()


@pytest.mark.parametrize("also_wrong", [False, True])
def test_a_runtime_that_is_broken_is_a_500_and_not_ready_until_it_answers_again(tensors, also_wrong, monkeypatch):
    monkeypatch.setattr(Breaking, "broken", False)
    monkeypatch.setattr(Breaking, "also_wrong", also_wrong)
    for client in ready(tensors, load=Breaking):
        answer = client.post("/v2/models/tiny/infer", json=request(data=[99, 1]))
        assert answer.status_code == 500
        assert client.get("/v2/health/ready").status_code == 503
        Breaking.broken = False
        assert client.get("/v2/health/ready").status_code == 200


def test_many_threads_get_their_own_answers(client):
    wrong = []

    def work(seed):
        for number in range(30):
            values = [float(seed), float(number + 1)]
            scores = client.post("/v2/models/tiny/infer", json=request(data=values)).json()["outputs"][0]["data"]
            if scores != [values[0] + values[1], -values[0]]:
                wrong.append((values, scores))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder, port):
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(port)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_until_ready(port, process):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            continue
        finally:
            connection.close()
    raise AssertionError("not ready")


def test_the_process_serves_and_stops_gracefully_on_sigterm(tensors, port):
    process = start(tensors, port)
    wait_until_ready(port, process)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v2/models/tiny/infer", json.dumps(request()))
    assert json.loads(connection.getresponse().read())["outputs"][0]["data"] == [7.0, -3.0]
    connection.close()
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in log


def test_after_sigusr1_every_client_is_answered_and_told_to_close_its_connection(tensors, port):
    process = start(tensors, port)
    wait_until_ready(port, process)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def asked():
        """The answer on the open connection, and whether the server keeps that open."""
        connection.request("POST", "/v2/models/tiny/infer", json.dumps(request()))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["outputs"][0]["data"], answer.getheader("connection")

    assert [asked() for _ in range(2)] == [(200, [7.0, -3.0], None)] * 2
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 300
    while (last := asked())[2] is None:
        assert time.monotonic() < deadline, "it lets its clients stay"
    assert last == (200, [7.0, -3.0], "close")
    assert asked() == last, "a client that still comes is answered"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)


def test_a_changed_candidate_ends_the_process_with_one_clear_line(tensors, tmp_path, port):
    for path in tensors.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"something else")
    process = start(tmp_path, port)
    _, log = process.communicate(timeout=300)
    assert process.returncode == 2
    assert log.strip().splitlines()[-1].startswith("error: ")
    assert "changed since the candidate was made" in log


def test_a_port_in_use_ends_the_process_with_one_clear_line(tensors):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(tensors, taken.getsockname()[1])
        _, log = process.communicate(timeout=300)
    assert process.returncode == 4
    assert "choose another with --port" in log


def test_what_the_image_runs_imports_neither_paddle_nor_pydantic(tensors):
    code = (
        "import sys; from pathlib import Path; from paddleship.shipped.serving.model import ServedModel; "
        "ServedModel(Path(sys.argv[1]), max_batch=1).warm_up(); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tensors)], capture_output=True, text=True, check=True)
    assert "'onnxruntime'" in done.stdout
    for foreign in ("paddle", "pydantic", "paddleship.config.params"):
        assert f"'{foreign}'" not in done.stdout


def test_float32_survives_the_wire_exactly():
    import orjson

    from paddleship.shipped.serving.transports.http import protocol

    values = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    sent = orjson.loads(orjson.dumps(protocol.encode_tensor("x", values), option=orjson.OPT_SERIALIZE_NUMPY))
    assert np.array_equal(protocol.decode_tensor(sent).astype(np.float32), values)


def test_a_server_takes_what_the_candidate_is_proven_with_and_no_more(tmp_path):
    nodes = [helper.make_node("Cast", ["steps"], ["values"], to=TensorProto.FLOAT), helper.make_node("Identity", ["x"], ["same"])]
    inputs = [TensorSpec("x", "float32", ("batch", "length")), TensorSpec("steps", "int64", ("batch",), 1, "length")]
    outputs = [TensorSpec("values", "float32", ("batch",)), TensorSpec("same", "float32", ("batch", "length"))]
    make_candidate(tmp_path, nodes, inputs, outputs, max_batch=3, dimensions=(Dimension("length", 2, 6, 2),))

    def body(rows, length, steps):
        x = {"name": "x", "datatype": "FP32", "shape": [rows, length], "data": [0.5] * (rows * length)}
        return {"inputs": [x, {"name": "steps", "datatype": "INT64", "shape": [rows], "data": [steps] * rows}]}

    for client in ready(tmp_path):
        wrong = {
            (4, 4, 1): "takes 1 to 3",
            (1, 8, 1): "takes 2 … 6 in multiples of 2",
            (1, 3, 1): "in multiples",
            (3, 4, 5): "outside 1 … 4",
        }
        for asked, words in wrong.items():
            answer = client.post("/v2/models/tiny/infer", json=body(*asked))
            assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.json()
        assert client.post("/v2/models/tiny/infer", json=body(3, 6, 6)).status_code == 200
    for client in ready(tmp_path, max_batch=2):
        assert "takes 1 to 2" in client.post("/v2/models/tiny/infer", json=body(3, 2, 1)).json()["error"]
    for client in ready(tmp_path, max_batch=100):
        assert "takes 1 to 3" in client.post("/v2/models/tiny/infer", json=body(4, 2, 1)).json()["error"]
