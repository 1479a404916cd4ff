"""Numbers that a client leaves out: null in JSON, NaN in binary forms; filled as in training, or a clear refusal."""

import json
from contextlib import closing

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from paddleship.acceptance import judging
from paddleship.acceptance.observing import observe
from paddleship.acceptance.transport import ServerError
from paddleship.acceptance.transports import other_server, server_at
from paddleship.acceptance.transports.http.triton import binary_body, request_body
from paddleship.config.sections.verify import Verify
from paddleship.data.dataset import Rows
from paddleship.proof.cases import missing_rows
from paddleship.proof.evidence import gather
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.shipped.serving import candidates
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.paddleship.shipped.serving.transports.http.running import server
from tests.paddleship.shipped.serving.transports.http.test_serving import ready

URL = "/v2/models/tiny/infer"
FILLED = [3.0, 1.75, 4.0]  # of a row without any number
REFUSED = "input 'age' must be finite numbers that float64 can hold (got nan): give such numbers"


@pytest.fixture(scope="module")
def filling(tmp_path_factory):
    return candidates.make_numbers(tmp_path_factory.mktemp("filling"))


@pytest.fixture(scope="module")
def dropping(tmp_path_factory):
    return candidates.make_numbers(tmp_path_factory.mktemp("dropping"), missing="drop")


@pytest.fixture
def client(filling):
    yield from ready(filling)


@pytest.fixture
def strict_client(dropping):
    yield from ready(dropping)


def request(size, age):
    sizes = [1, 2] if len(size) == 2 and not isinstance(size[0], list) else [len(size), 2]
    return {"inputs": [
        {"name": "size", "datatype": "FP64", "shape": sizes, "data": size},
        {"name": "age", "datatype": "FP64", "shape": [len(age)], "data": age},
    ]}  # fmt: skip


def tensors(*sizes, age=1.0):
    return {"size": np.array(sizes), "age": np.array([age] * len(sizes))}


def data(reply):
    assert reply.status_code == 200, reply.text
    return reply.json()["outputs"][0]["data"]


def test_null_is_filled_flat_and_nested_alone_and_beside_numbers(client):
    assert data(client.post(URL, json=request([None, None], [None]))) == FILLED
    assert data(client.post(URL, json=request([[None, 2], [1, None]], [1, None]))) == [3, 0, 0, 0, 1.75, 4]
    assert data(client.post(URL, json=request([None, 2.0], [1]))) == data(client.post(URL, json=request([7, 2], [1.0])))


def test_a_row_as_an_object_may_have_null(client):
    assert client.post("/predict", json={"size": [None, None], "age": None}).json() == {"y": FILLED}
    rows = [{"size": [1, 2], "age": None}, {"size": [None, 2], "age": 1}]
    assert client.post("/predict", json=rows).json() == [{"y": [0, 0, 4]}, {"y": [3, 0, 0]}]


def test_metadata_names_the_inputs_whose_numbers_may_be_missing(client, strict_client):
    assert client.get("/v2/models/tiny").json()["parameters"]["missing"] == ["size", "age"]
    assert "missing" not in strict_client.get("/v2/models/tiny").json()["parameters"]


def test_nan_in_a_binary_tensor_is_a_missing_number(client):
    body, length = binary_body(tensors([np.nan, 2.0], age=np.nan))
    headers = {"Inference-Header-Content-Length": str(length)}
    assert data(client.post(URL, content=body, headers=headers)) == [3, 0, 4]


@pytest.mark.parametrize(
    ("size", "age", "words"),
    [
        ([1, 2], [None], "the data of tensor 'age' hold null: send FP64 values"),
        ([None, 2], [1], "the data of tensor 'size' hold null: send FP64 values"),
        ([None, None], [None], "the data of tensor 'size' hold null"),
    ],
)
def test_null_is_a_400_where_rows_with_missing_numbers_were_dropped(strict_client, size, age, words):
    reply = strict_client.post(URL, json=request(size, age))
    assert (reply.status_code, words in reply.json()["error"]) == (400, True)
    reply = strict_client.post("/predict", json={"size": size, "age": age[0]})
    assert (reply.status_code, words in reply.json()["error"]) == (400, True)


def test_nan_is_a_400_where_rows_with_missing_numbers_were_dropped(strict_client):
    body, length = binary_body(tensors([1.0, 2.0], age=np.nan))
    reply = strict_client.post(URL, content=body, headers={"Inference-Header-Content-Length": str(length)})
    assert (reply.status_code, reply.json()["error"]) == (400, REFUSED)


@pytest.mark.parametrize(
    ("size", "age", "words"),
    [
        ([None, "2"], [1], "the data of tensor 'size' hold text"),
        ([None, {}], [1], "the data of tensor 'size' hold an object"),
        ([None, True], [1], "the data of tensor 'size' hold true or false"),
        ([None], [1], "tensor 'size' has 1 values, its shape [1, 2] needs 2"),
        ([[None, 1], None], [1, 1], "the data of tensor 'size' are not numbers in rows of one length"),
        ([None, [1, 2]], [1, 1], "the data of tensor 'size' are not numbers in rows of one length"),
    ],
)
def test_what_is_neither_a_number_nor_null_stays_a_400(client, size, age, words):
    body = request([1, 2] * len(age), age)
    body["inputs"][0] |= {"shape": [len(age), 2], "data": size}
    reply = client.post(URL, json=body)
    assert (reply.status_code, words in reply.json()["error"]) == (400, True), reply.text


def test_a_list_that_is_null_and_an_infinite_number_stay_a_400(client):
    reply = client.post("/predict", json={"size": None, "age": 1})
    assert (reply.status_code, "input 'size' has the shape [1]" in reply.json()["error"]) == (400, True)
    body, length = binary_body(tensors([np.inf, 2.0]))
    reply = client.post(URL, content=body, headers={"Inference-Header-Content-Length": str(length)})
    assert (reply.status_code, "must be finite numbers" in reply.json()["error"]) == (400, True)
    assert client.post(URL, content=json.dumps(request([np.nan, 2], [1]))).status_code == 400  # NaN is no JSON


def test_nan_over_grpc_is_filled_raw_and_in_fields_and_refused_where_rows_were_dropped(filling, dropping):
    sent = []
    for name, values in tensors([np.nan, np.nan], age=np.nan).items():
        sent.append(triton.InferInput(name, list(values.shape), "FP64"))
        sent[-1].set_data_from_numpy(values)
    items = [
        {"name": name, "datatype": "FP64", "shape": shape, "contents": {"fp64_contents": [np.nan] * shape[-1]}}
        for name, shape in (("size", [1, 2]), ("age", [1]))
    ]
    with grpc_server.in_process(filling) as (_, address), closing(triton.InferenceServerClient(address)) as client:
        assert client.infer("tiny", sent).as_numpy("y").tolist() == [FILLED]
        answer = client._client_stub.ModelInfer(service_pb2.ModelInferRequest(model_name="tiny", inputs=items))
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == FILLED
    refused = pytest.raises(InferenceServerException, match=r"INVALID_ARGUMENT.*must be finite numbers")
    with grpc_server.in_process(dropping) as (_, address), closing(triton.InferenceServerClient(address)) as client, refused:
        client.infer("tiny", sent)


def proven(folder):
    """Held-out rows without a missing number, those that are made from them, and the evidence of what the candidate answers to these."""
    candidate = Candidate.load(folder)
    encoders = preprocess.build(candidate.preprocess, candidate.inputs)
    random = np.random.default_rng(0)
    rows = Rows({"size": [*random.normal(size=(6, 2))], "age": [*random.normal(size=6)]}, np.zeros(0), [*map(str, range(6))])
    made = missing_rows.made_from(rows, encoders)
    cases = missing_rows.cases(encoders.encode(made.columns), encoders.collate, first=len(rows), max_batch=3)
    answers = [{"y": np.column_stack([case.inputs["size"], case.inputs["age"]])} for case in cases]
    exact = [{name: array.astype(np.float64) for name, array in answer.items()} for answer in answers]
    return rows.joined(made), encoders, gather(cases, answers, exact, task="regression")


def test_rows_with_missing_numbers_are_made_where_the_data_has_none(filling, dropping):
    rows, _, evidence = proven(filling)
    assert [case.raw for case in evidence.cases] == [(6,), (6, 7, 8), (9,)]
    lacking = [[*np.isnan(size), np.isnan(age)] for size, age in zip(rows.columns["size"][6:], rows.columns["age"][6:], strict=True)]
    assert np.array(lacking, int).tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert not np.isnan(np.array(rows.columns["size"][:6])).any()
    candidate = Candidate.load(dropping)
    strict = preprocess.build(candidate.preprocess, candidate.inputs)
    assert not len(missing_rows.made_from(rows.take(range(6)), strict))
    assert missing_rows.cases([], strict.collate, first=6, max_batch=3) == []


def observed(folder, rows, encoders, evidence):
    with grpc_server.process(folder) as (http_port, grpc_port):
        http = server_at("127.0.0.1", http_port, model="tiny")
        both = [http, other_server("grpc", "127.0.0.1", grpc_port, beside=http, model="tiny", timeout_s=30)]
        batches = [rows.take(case.raw).columns for case in evidence.cases]
        asked = {"batches": batches, "pads": {}, "requests": 8, "concurrency": 2, "malformed": encoders.malformed}
        return [observe(one, missing=encoders.missing, **asked) for one in both]


def test_acceptance_sends_missing_numbers_over_every_transport_and_sees_them_filled(filling):
    rows, encoders, evidence = proven(filling)
    for seen in observed(filling, rows, encoders, evidence):
        assert seen.faults == seen.hostile == []
        checks, _ = judging.checks(seen, evidence, judging.ServedCandidate("float32"), Verify())
        assert [check.name for check in checks if not check.passed] == ["max_batch"]  # no real rows are among the cases
        assert seen.example["request"]["inputs"][1]["data"] == [None]


def test_acceptance_refuses_a_server_that_fills_with_other_numbers(filling, tmp_path):
    rows, encoders, evidence = proven(filling)
    other = candidates.make_numbers(tmp_path)
    meta = json.loads((other / "candidate.json").read_text())
    meta["preprocess"]["inputs"]["age"]["fill"] = [5.01]
    (other / "candidate.json").write_text(json.dumps(meta))
    for seen in observed(other, rows, encoders, evidence):
        checks, _ = judging.checks(seen, evidence, judging.ServedCandidate("float32"), Verify())
        assert "noise_ratio" in {check.name for check in checks if not check.passed}


def test_acceptance_refuses_a_server_that_takes_no_missing_number_or_takes_one_where_rows_were_dropped(filling, dropping):
    rows, _, _ = proven(filling)
    with server(dropping) as port, pytest.raises(ServerError, match="answered 400 to a held-out row"):
        observe(server_at("127.0.0.1", port, model="tiny"), batches=[rows.take([6]).columns], pads={}, requests=2, concurrency=1)
    candidate = Candidate.load(dropping)
    strict = preprocess.build(candidate.preprocess, candidate.inputs)
    with server(filling) as port:
        seen = observe(
            server_at("127.0.0.1", port, model="tiny"),
            batches=[rows.take([0]).columns],
            pads={},
            requests=2,
            concurrency=1,
            malformed=strict.malformed,
        )
    wrong = {fault.partition(":")[0] for fault in seen.hostile}
    assert wrong == {"null in size", "null in age", "a missing number", "a missing number, binary tensors"}


def test_the_client_writes_null_where_a_number_is_missing():
    assert json.loads(request_body(tensors([np.nan, 2.0])))["inputs"][0]["data"] == [None, 2.0]
