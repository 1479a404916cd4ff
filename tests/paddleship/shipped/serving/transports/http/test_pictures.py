"""Pictures over HTTP: as base64 in JSON and as the whole body, within the limits of the server."""

import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from paddleship.acceptance.observing import observe
from paddleship.acceptance.transports import server_at
from paddleship.errors import RequestError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.transports.http import protocol
from paddleship.shipped.serving.transports.http.limits import of_bodies
from tests.paddleship.shipped.serving.candidates import make_candidate, make_pictures
from tests.paddleship.shipped.serving.transports.http.recording import serving
from tests.paddleship.shipped.serving.transports.http.test_serving import ready
from tests.pictures import drawn, encoded

REPOSITORY = Path(__file__).parents[6]
URL = "/v2/models/tiny/infer"
JPEG = encoded(drawn(), "JPEG")
CURL = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture
def client(pictures):
    yield from ready(pictures)


def encoder(folder):
    candidate = Candidate.load(folder)
    return preprocess.build(candidate.preprocess, candidate.inputs, candidate.dimensions)


def in_json(*contents):
    data = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in contents]
    return {"inputs": [{"name": "photo", "datatype": "BYTES", "shape": [len(data)], "data": data}]}


def test_metadata_say_how_a_picture_is_sent(client):
    metadata = client.get("/v2/models/tiny").json()
    assert metadata["inputs"] == [{"name": "photo", "datatype": "BYTES", "shape": [-1]}]
    assert metadata["parameters"]["base64"] == ["photo"]
    assert metadata["parameters"]["raw_body"] == "photo"
    assert metadata["parameters"]["max_bytes"] == 4 * 200_000 * 4 // 3 + 64 * 2**10


def test_the_server_encodes_a_picture_as_training_does_byte_for_byte(client, pictures):
    other = encoded(drawn(seed=3))
    (first, second) = encoder(pictures).encode({"photo": [JPEG, other]})
    output = client.post(URL, json=in_json(JPEG, other)).json()["outputs"][0]
    assert output["shape"] == [2, 3, 8, 8]
    assert np.array(output["data"], np.float32).tobytes() == np.stack([first["x"], second["x"]]).tobytes()


@pytest.mark.parametrize("headers", [CURL, {}, {"Content-Type": "image/jpeg"}, {"Content-Type": "application/octet-stream"}])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
def test_a_body_that_is_a_picture_gets_the_answer_of_one_row(client, headers, form):
    content = encoded(drawn(), form)
    answer = client.post(URL, content=content, headers=headers)
    assert answer.status_code == 200
    assert answer.json() == client.post(URL, json=in_json(content)).json()


@pytest.mark.parametrize("headers", [CURL, {"Content-Type": "application/octet-stream"}])
def test_json_is_json_whatever_type_a_client_names(client, headers):
    body = b"\n " + json.dumps(in_json(JPEG)).encode()
    assert client.post(URL, content=body, headers=headers).json()["outputs"][0]["shape"] == [1, 3, 8, 8]
    refused = client.post(URL, content=JPEG, headers={"Content-Type": "application/json; charset=utf-8"})
    assert refused.status_code == 400
    assert "is not JSON" in refused.json()["error"]
    assert refused.json()["error"].endswith("or the file as the whole body, with its own content type")


def test_what_a_server_must_refuse_is_a_400_in_both_forms(client, pictures):
    for name, value in encoder(pictures).malformed("photo", JPEG):
        for refused in (client.post(URL, json=in_json(value)), client.post(URL, content=value, headers=CURL)):
            assert refused.status_code == 400, name
            assert "error" in refused.json()
    assert client.post(URL, content=JPEG, headers=CURL).status_code == 200


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("not base64!", "row 0 of input 'photo' is not base64"),
        (base64.encodebytes(JPEG).decode(), "without line breaks or a prefix"),
        ("data:image/jpeg;base64," + base64.b64encode(JPEG).decode(), "without line breaks or a prefix"),
        (7, "row 0 of input 'photo' is int: send the bytes as base64 text"),
        (None, "row 0 of input 'photo' is NoneType"),
    ],
)
def test_bytes_in_json_that_are_no_base64_are_refused(client, data, words):
    refused = client.post(URL, json=in_json(data))
    assert refused.status_code == 400
    assert words in refused.json()["error"]


def test_a_form_is_refused_with_what_to_send(client):
    refused = client.post(URL, files={"photo": ("cat.jpg", JPEG, "image/jpeg")})
    assert (refused.status_code, "curl --data-binary @FILE" in refused.json()["error"]) == (415, True)


def test_larger_files_and_bodies_are_refused(client):
    large = encoded(drawn(500, 500), "BMP")
    refused = client.post(URL, content=large, headers=CURL)
    assert (refused.status_code, "and the limit is 200,000: give a smaller file" in refused.json()["error"]) == (400, True)
    assert client.post(URL, content=large * 3, headers=CURL).status_code == 413
    assert client.post(URL, json=in_json(*[JPEG] * 5)).status_code == 400
    many = b'{"inputs": [' + b"{}," * 300_000 + b"{}]}"
    assert client.post(URL, content=many, headers=CURL).status_code == 413, "the values of JSON are counted"


def test_limits_hold_the_base64_of_the_largest_rows_and_the_memory():
    photo = TensorSpec("photo", "bytes", ("batch",))
    one = of_bodies([photo], max_batch=4, longest_text=None, largest_bytes=3 * 10**6, memory_bytes=10**10)
    assert one.max_bytes == 4 * 4 * 10**6 + 64 * 2**10
    assert one.raw
    tight = of_bodies([photo], max_batch=4, longest_text=None, largest_bytes=3 * 10**6, memory_bytes=8 * 10**6)
    assert tight.max_bytes == 500_000
    titled = [photo, TensorSpec("title", "str", ("batch",))]
    both = of_bodies(titled, max_batch=4, longest_text=100, largest_bytes=3 * 10**6, memory_bytes=10**10)
    assert both.max_bytes == one.max_bytes + 4 * (12 * 100 + 16 * 2**10)
    assert not both.raw
    assert both.max_marks is None


def test_a_picture_beside_numbers_is_sent_in_json_only(tmp_path):
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in ("x", "price")]
    x, price = TensorSpec("x", "float32", ("batch", 3, 8, 8)), TensorSpec("price", "float32", ("batch", 2))
    outputs = [replace(spec, name=f"{spec.name}_out") for spec in (x, price)]
    entry = {"kind": "image", "column": "photo", "resize": "exact"}
    make_candidate(tmp_path, nodes, [x, price], outputs, preprocess={"inputs": {"x": entry}}, max_batch=4)
    numbers = {"name": "price", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    for client in ready(tmp_path):
        metadata = client.get("/v2/models/tiny").json()
        assert [one["name"] for one in metadata["inputs"]] == ["photo", "price"]
        assert metadata["parameters"]["base64"] == ["photo"]
        assert "raw_body" not in metadata["parameters"]
        answer = client.post(URL, json={"inputs": [*in_json(JPEG)["inputs"], numbers]}).json()
        assert answer["outputs"][1]["data"] == [1, 2]
        refused = client.post(URL, content=JPEG, headers=CURL)
        assert (refused.status_code, "is not JSON" in refused.json()["error"]) == (400, True)


def test_columns_of_text_are_no_base64():
    texts = {"inputs": [{"name": "title", "datatype": "BYTES", "shape": [1], "data": ["Y2F0"]}]}
    assert protocol.tensors(texts, files=["photo"], most_rows=4)[0].decode() == ["Y2F0"]
    assert protocol.tensors(in_json(b"cat"), files=["photo"], most_rows=4)[0].decode() == [b"cat"]
    with pytest.raises(RequestError, match="base64"):
        protocol.tensors(in_json("Y2F0\n"), files=["photo"], most_rows=4)[0].decode()


def test_acceptance_asks_in_both_forms_and_with_malformed_pictures(pictures):
    rows = [JPEG, *(encoded(drawn(seed=seed)) for seed in range(3))]
    with serving(REPOSITORY, pictures) as port:
        server = server_at("127.0.0.1", port, model="tiny")
        observed = observe(
            server,
            batches=[{"photo": rows}, {"photo": rows[:1]}, {"photo": rows[1:2]}],
            pads={},
            requests=20,
            concurrency=2,
            malformed=encoder(pictures).malformed,
        )
    assert observed.faults == observed.hostile == []
    expected = np.stack([one["x"] for one in encoder(pictures).encode({"photo": rows})])
    np.testing.assert_array_equal(observed.answers[0]["pixels"], expected)
    assert base64.b64decode(observed.example["request"]["inputs"][0]["data"][0]) in rows


def test_acceptance_finds_a_server_that_answers_what_it_must_refuse(pictures):
    with serving(REPOSITORY, pictures) as port:
        server = server_at("127.0.0.1", port, model="tiny")
        observed = observe(
            server,
            batches=[{"photo": [JPEG]}],
            pads={},
            requests=5,
            concurrency=1,
            malformed=lambda _column, value: [("a good one", value)],
        )
    assert [fault.partition(":")[0] for fault in observed.hostile] == [
        "a good one",
        "a good one, binary tensors",
        "a good one, the bytes as the whole body (application/x-www-form-urlencoded)",
        "a good one, the bytes as the whole body (application/octet-stream)",
    ]


def test_a_server_of_a_model_without_pictures_needs_no_pillow(tmp_path):
    code = "import sys\nsys.modules['PIL'] = None\nfrom paddleship.shipped.computing.preprocess import registry\nprint(*registry.found())\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "image" in done.stdout.split()
