"""`POST /predict`: what it takes, and the short answers that it gives."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.paddleship.shipped.serving.candidates import make_all_datatypes, make_picking, make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports.http.recording import request as request_body
from tests.paddleship.shipped.serving.transports.http.test_serving import ready

INFER = "/v2/models/tiny/infer"


@pytest.fixture
def client(tmp_path, request):
    yield from ready(request.param(tmp_path))


def of(make):
    return pytest.mark.parametrize("client", [make], indirect=True)


@of(make_tensors)
def test_a_row_gets_its_label_and_a_list_of_rows_a_list(client):
    assert client.post("/predict", json={"x": [3, 4]}).json() == {"label": "否"}
    assert client.post("/predict", json=[{"x": [3, 4]}, {"x": [-1, 1]}]).json() == [{"label": "否"}, {"label": "yes"}]
    assert client.post("/predict", json=[{"x": [3, 4]}]).json() == [{"label": "否"}]


@of(make_picking)
def test_without_labels_a_row_gets_the_outputs_and_columns_may_be_numbers(client):
    assert client.post("/predict", json={"x": [5, 6, 7], "steps": 2}).json() == {"y": [6.0]}
    assert client.post("/predict", json=[{"x": [5, 6], "steps": 1}, {"x": [7, 8], "steps": 2}]).json() == [{"y": [5.0]}, {"y": [8.0]}]
    assert client.post("/predict", json={"x": [5, 6, 7], "steps": 9}).status_code == 422


@of(make_texts)
def test_a_text_that_was_cut_is_named_in_its_row(client):
    assert client.post("/predict", json=[{"text": "好"}, {"text": "好x好xx"}]).json() == [
        {"values": [2, 0, 0, 0]},
        {"values": [2, 1, 2, 1], "truncated": {"text": {"length": 5, "kept": 4}}},
    ]


@of(make_pictures)
def test_a_picture_is_the_whole_body_or_base64_in_a_row(client):
    stream = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(stream, "PNG")
    raw = client.post("/predict", content=stream.getvalue(), headers={"Content-Type": "image/png"})
    assert np.shape(raw.json()["pixels"]) == (3, 8, 8)
    assert client.post("/predict", json={"photo": base64.b64encode(stream.getvalue()).decode()}).json() == raw.json()
    broken = client.post("/predict", json={"photo": "no base64!"})
    assert (broken.status_code, "is not base64" in broken.json()["error"]) == (400, True)


@of(make_picking)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"x": [1, 2]}, 'row 0 has no \'steps\': send {"x": …, "steps": …} or a list of these'),
        ([{"x": [1, 2], "steps": 1}, {"steps": 1}], "row 1 has no 'x'"),
        ({"x": [1, 2], "steps": 1, "y": 2}, "row 0 has 'y', which is no input"),
        ([1], "row 0 is '1', which is no object"),
        ("text", "row 0 is 'text', which is no object"),
        ([], "the request has no rows"),
        ({"x": [1, "a"], "steps": 1}, "hold text"),
        ({"x": [], "steps": 1}, "its rows are empty"),
        ({"x": 1, "steps": 1}, "the model takes [-1, -1]"),
        ([{"x": [1, 2], "steps": 1}, {"x": [1], "steps": 1}], "not numbers in rows of one length"),
        ({"x": [1, 2], "steps": 0}, "input 'steps' is below 1 (got 0)"),
        ({"x": [1, 2], "steps": [1]}, "the model takes [-1]"),
        ([{"x": [1, 2], "steps": 1}] * 5000, "has 5000 rows, this server takes 1 to 4096"),
    ],
)
def test_rows_that_do_not_fit_are_a_400_that_says_what_to_send(client, body, words):
    answer = client.post("/predict", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def make_ids(folder):
    return make_all_datatypes(folder, ("int64",))


def infer_ids(shape, data):
    """A request with a row of three ids in the Open Inference Protocol; `data` is as it stands in the JSON."""
    return f'{{"inputs": [{{"name": "int64", "datatype": "INT64", "shape": {shape}, "data": {data}}}]}}'


@of(make_ids)
@pytest.mark.parametrize("number", ["9007199254740993.0", "9007199254740993.5", "9.007199254740993e15", "-9007199254740993.0"])
def test_an_id_that_loses_digits_as_a_float_is_refused_in_every_form(client, number):
    row = f"[1, {number}, 9007199254740995]"
    forms = {"/predict": [f'{{"int64": {row}}}', f'[{{"int64": [1, 2, 3]}}, {{"int64": {row}}}]']}
    forms[INFER] = [infer_ids([1, 3], row), infer_ids([1, 3], f"[{row}]")]
    read = int(float(number))
    words = (
        f"input 'int64' has a number of 2**53 or more with a fraction or an exponent, which loses digits (read as {read}): "
        "write it as a whole number, without a fraction or an exponent"
    )
    for path, bodies in forms.items():
        for body in bodies:
            refused = client.post(path, content=body.encode())
            assert (refused.status_code, refused.json()) == (400, {"error": words})


@of(make_ids)
def test_an_id_is_answered_in_full_beside_numbers_with_a_fraction_of_zero_or_an_exponent(client):
    row = "[9007199254740993, 9007199254740991.0, 1e3]"
    ids = [9007199254740993, 9007199254740991, 1000]
    rows = client.post("/predict", content=f'[{{"int64": {row}}}, {{"int64": [-9223372036854775808, 1.0, 2]}}]'.encode()).json()
    assert [one["int64_out"] for one in rows] == [ids, [-(2**63), 1, 2]]
    for data in (row, f"[{row}]"):
        assert client.post(INFER, content=infer_ids([1, 3], data).encode()).json()["outputs"][0]["data"] == ids


@of(make_tensors)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", "NESTED"),
        (INFER, '{"inputs": [], "parameters": {"timeout": NESTED}}'),
        (INFER, '{"inputs": [], "parameters": {"binary_data_output": NESTED}}'),
        (INFER, '{"inputs": [], "outputs": [{"name": NESTED}]}'),
        (INFER, '{"inputs": [], "outputs": [{"name": "scores", "parameters": {"binary_data": NESTED}}]}'),
        ("/v2/repository/index", '{"ready": NESTED}'),
    ],
)
def test_what_is_nested_deeper_than_python_recurses_is_a_400(client, path, body):
    row = json.dumps(request_body()["inputs"])
    refused = client.post(path, content=body.replace("[]", row, 1).replace("NESTED", "[" * 1010 + "]" * 1010))
    assert refused.status_code == 400


@of(make_tensors)
def test_what_is_no_json_or_cannot_be_sent_is_refused(client):
    assert "the request is not JSON" in client.post("/predict", content=b"{").json()["error"]
    behind = client.post("/predict", content=b'{"x": [3, 4]}12345678', headers={"Inference-Header-Content-Length": "13"})
    assert (behind.status_code, "rows have no binary tensors" in behind.json()["error"]) == (400, True)
    assert client.get("/predict").status_code == 405
    deep = client.post("/predict", content=b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}")
    assert deep.status_code == 400
