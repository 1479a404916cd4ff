"""tritonclient at its defaults, which are binary tensors, and what lies about their sizes; compressed bodies and answers."""

import asyncio
import gzip
import io
import json
import struct
import zlib

import numpy as np
import pytest
from tritonclient import http as triton
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.transports.http import compression
from tests.paddleship.shipped.serving.candidates import make_all_datatypes, make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports.http.recording import request, serving, text
from tests.paddleship.shipped.serving.transports.http.test_serving import REPOSITORY, ready
from tests.pictures import drawn, encoded

URL = "/v2/models/tiny/infer"
ROWS = {
    **{"bool": [[True, False, True]], "int8": [[-128, 0, 127]], "int16": [[-(2**15), 0, 2**15 - 1]], "int32": [[-(2**31), 0, 2**31 - 1]]},
    **{"int64": [[-(2**63), 0, 2**63 - 1]], "uint8": [[0, 1, 255]], "float16": [[0.5, -2, 65504]], "float32": [[0.1, -1e38, 7]]},
    "float64": [[0.1, 1e300, -7]],
}


def inputs(**columns):
    made = []
    for name, values in columns.items():
        array = np.array(values)
        made.append(triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)).set_data_from_numpy(array))
    return made


@pytest.fixture(scope="module")
def all_datatypes(tmp_path_factory):
    with serving(REPOSITORY, make_all_datatypes(tmp_path_factory.mktemp("all"))) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    with serving(REPOSITORY, make_texts(tmp_path_factory.mktemp("texts"))) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


@pytest.fixture
def client(tensors):
    yield from ready(tensors)


def columns():
    return {name: np.array(row, name) for name, row in ROWS.items()}


def test_triton_at_its_defaults_sends_and_reads_every_datatype(all_datatypes):
    client = triton.InferenceServerClient(all_datatypes)
    result = client.infer("tiny", inputs(**columns()), request_id="7")
    assert result.get_response()["id"] == "7"
    for name, values in columns().items():
        assert result.as_numpy(f"{name}_out").dtype == values.dtype
        assert np.array_equal(result.as_numpy(f"{name}_out"), values)
        assert "data" not in result.get_output(f"{name}_out")
    client.close()


def test_inputs_and_outputs_in_json_and_binary_may_be_mixed(all_datatypes):
    client = triton.InferenceServerClient(all_datatypes)
    mixed = inputs(**columns())
    for item, (name, values) in zip(mixed, columns().items(), strict=True):
        item.set_data_from_numpy(values, binary_data=name in ("bool", "int8", "float64"))
    asked = [triton.InferRequestedOutput(f"{name}_out", binary_data=name != "int64") for name in ("float64", "int64", "bool")]
    result = client.infer("tiny", mixed, outputs=asked)
    assert [item["name"] for item in result.get_response()["outputs"]] == ["float64_out", "int64_out", "bool_out"]
    assert "data" in result.get_output("int64_out")
    for name in ("float64", "int64", "bool"):
        assert np.array_equal(result.as_numpy(f"{name}_out"), columns()[name])
    client.close()


def test_triton_s_async_client_works_at_its_defaults(texts):
    async def ask():
        async with aio.InferenceServerClient(texts) as client:
            result = await client.infer("tiny", inputs(text=np.array(["好", "好x好"], object)))
            compressed = await client.infer(
                "tiny",
                inputs(text=np.array(["好"] * 500, object)),
                request_compression_algorithm="gzip",
                response_compression_algorithm="deflate",
            )
            return result.as_numpy("values"), compressed.as_numpy("values")

    values, many = asyncio.run(ask())
    assert values.tolist() == [[2, 0, 0, 0], [2, 1, 2, 0]]
    assert many.shape == (500, 2)


@pytest.mark.parametrize("asked", ["gzip", "deflate"])
@pytest.mark.parametrize("sent", ["gzip", "deflate", None])
def test_bodies_and_answers_are_compressed_as_triton_asks(texts, sent, asked):
    client = triton.InferenceServerClient(texts)
    many = inputs(text=np.array(["好x"] * 300, object))
    result = client.infer("tiny", many, request_compression_algorithm=sent, response_compression_algorithm=asked)
    assert result.as_numpy("values").tolist() == [[2, 1]] * 300
    client.close()


def test_triton_sees_the_server_its_model_and_the_index_of_its_repository(texts):
    client = triton.InferenceServerClient(texts)
    version = client.get_model_metadata("tiny")["versions"][0]
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny", version)
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.get_model_repository_index() == [{"name": "tiny", "version": version, "state": "READY", "reason": ""}]
    assert client.infer("tiny", inputs(text=np.array(["好"], object)), model_version=version).get_response()["model_version"] == version
    client.close()


def test_a_picture_is_sent_without_base64(tmp_path):
    file = encoded(drawn(seed=1))
    with serving(REPOSITORY, make_pictures(tmp_path)) as port:
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        pixels = client.infer("tiny", inputs(photo=np.array([file], object))).as_numpy("pixels")
        assert pixels.shape == (1, 3, 8, 8)
        with pytest.raises(InferenceServerException, match="picture"):
            client.infer("tiny", inputs(photo=np.array([b"\xff\x00no picture"], object)))
        client.close()


def binary(content, *, json_bytes=None, headers=(), size=8, **changes):
    """A request whose one tensor is `content`, and its headers."""
    item = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": size}} | changes
    head = json.dumps({"inputs": [item]}).encode()
    return {"content": head + content, "headers": {"Inference-Header-Content-Length": str(json_bytes or len(head)), **dict(headers)}}


ROW = struct.pack("<2f", 3, 4)


def test_the_answer_has_binary_outputs_only_where_the_request_asks_for_them(client):
    answer = client.post(URL, **binary(ROW))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["outputs"][0]["data"] == [7, -3]
    body = {**request(), "parameters": {"binary_data_output": True}, "outputs": [{"name": "label"}, {"name": "scores"}]}
    body["outputs"][0]["parameters"] = {"binary_data": False}
    answer = client.post(URL, json=body)
    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert json.loads(answer.content[:length])["outputs"][1]["parameters"] == {"binary_data_size": 8}
    assert json.loads(answer.content[:length])["outputs"][0]["data"] == ["否"]
    assert struct.unpack("<2f", answer.content[length:]) == (7, -3)


def test_binary_outputs_may_hold_nan_and_infinity_which_json_refuses(client):
    body = request(data=[1, 0])
    refused = client.post(URL, json=body)
    assert (refused.status_code, "or ask for binary data" in refused.json()["error"]) == (500, True)
    answer = client.post(URL, json={**body, "outputs": [{"name": "logs", "parameters": {"binary_data": True}}]})
    assert struct.unpack("<2f", answer.content[-8:]) == (0, -np.inf)
    assert client.post(URL, json={**body, "outputs": [{"name": "scores"}]}).json()["outputs"][0]["data"] == [1, -1]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (binary(ROW, json_bytes=10**6), "Inference-Header-Content-Length is 1000000, and the body has"),
        (binary(ROW, json_bytes="x"), "Inference-Header-Content-Length is 'x': send the number of bytes"),
        (binary(ROW, json_bytes="-5"), "send the number of bytes"),
        (binary(ROW, json_bytes="9" * 30), "send the number of bytes"),
        (binary(ROW, json_bytes=7), "is not JSON"),
        (binary(ROW, size=7), "the inputs have 7 bytes by their binary_data_size, and 8 follow the JSON"),
        (binary(ROW, size=2**63), "and 8 follow the JSON"),
        (binary(ROW + b"!"), "and 9 follow the JSON"),
        (binary(ROW, size=-8), "has the binary_data_size -8: give the number of its bytes"),
        (binary(ROW, size=True), "has the binary_data_size True"),
        (binary(ROW, size="8"), "has the binary_data_size '8'"),
        (binary(ROW, data=[3, 4]), "has 'data' and a binary_data_size"),
        (binary(ROW[:7], size=7), "has 7 bytes, its shape [1, 2] of FP32 needs 8"),
        (binary(ROW, shape=[1, -2]), "none below 0"),
        (binary(ROW, shape=[2**62, 2**62]), "has 8 bytes, its shape"),
        (binary(b"", size=0, shape=[0, 2**62, 2**62]), "which is too large"),
        (binary(ROW, shape=[1] * 40), "has more than 32 dimensions"),
        (binary(ROW, shape="x"), "give a list of whole numbers"),
        (binary(ROW, datatype="FP64"), "send FP32"),
        (binary(ROW, datatype="BYTES"), "send FP32"),
        (binary(struct.pack("<2f", 1, np.nan)), "must be finite numbers that float32 can hold (got nan)"),
        (binary(struct.pack("<2f", 1, np.inf)), "must be finite"),
        (binary(struct.pack("<2f", 1, 101)), "is outside -1 … 100"),
        (binary(b"", size=0, shape=[0, 2]), "the request has no rows"),
    ],
)
def test_a_request_that_lies_about_its_bytes_is_refused(client, sent, words):
    refused = client.post(URL, **sent)
    assert refused.status_code == 400
    assert words in refused.json()["error"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"binary_data_output": 1}}, "must be true or false"),
        ({"parameters": [1]}, "'parameters' of the request must be an object (got list)"),
        ({"outputs": [{"name": "scores", "parameters": {"binary_data": "yes"}}]}, "the parameter 'binary_data' of output 'scores' must be"),
    ],
)
def test_a_form_of_outputs_that_is_none_is_refused(client, changes, words):
    refused = client.post(URL, json={**request(), **changes})
    assert (refused.status_code, words in refused.json()["error"]) == (400, True)


def bytes_of(*values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


@pytest.mark.parametrize(
    ("content", "count", "words"),
    [
        (bytes_of(b"\xff"), 1, "value 0 of tensor 'text' is not UTF-8"),
        (bytes_of("好".encode())[:-1], 1, "value 0 of tensor 'text' ends beyond its 6 bytes"),
        (struct.pack("<I", 2**32 - 1), 1, "ends beyond its 4 bytes"),
        (b"\x00\x00", 1, "ends beyond its 2 bytes"),
        (bytes_of(b"a", b"b"), 1, "has 5 bytes after its 1 values"),
        (bytes_of(b"a"), 2, "value 1 of tensor 'text' ends beyond"),
        (b"", 10**12, "has 1000000000000 values, this server takes up to 4096"),
    ],
)
def test_texts_that_are_cut_or_lie_about_their_lengths_are_refused(tmp_path, content, count, words):
    for client in ready(make_texts(tmp_path)):
        refused = client.post(URL, **binary(content, size=len(content), name="text", datatype="BYTES", shape=[count]))
        assert refused.status_code == 400
        assert words in refused.json()["error"]


def test_bytes_of_bool_are_0_or_1(tmp_path):
    for client in ready(make_all_datatypes(tmp_path, ("bool",))):
        refused = client.post(URL, **binary(b"\x00\x01\x02", size=3, name="bool", datatype="BOOL", shape=[1, 3]))
        assert (refused.status_code, "bytes other than 0 and 1" in refused.json()["error"]) == (400, True)


def test_a_tensor_that_begins_at_an_odd_address_is_read(tmp_path):
    for client in ready(make_all_datatypes(tmp_path, ("bool", "float64"))):
        items = [{"name": name, "datatype": kind, "shape": [1, 3]} for name, kind in (("bool", "BOOL"), ("float64", "FP64"))]
        items = [item | {"parameters": {"binary_data_size": size}} for item, size in zip(items, (3, 24), strict=True)]
        head = json.dumps({"inputs": items}).encode()
        content = head + b"\x01\x00\x01" + struct.pack("<3d", 1, 2, 3)
        answer = client.post(URL, content=content, headers={"Inference-Header-Content-Length": str(len(head))})
        assert answer.json()["outputs"][1]["data"] == [1, 2, 3]


def test_bytes_of_tensors_are_no_json_values_that_count(tmp_path):
    """The limit of JSON values would refuse tensors that hold many commas and brackets."""
    for client in ready(make_all_datatypes(tmp_path, ("float64",))):
        content = b"{" * (4096 * 3 * 8)
        answer = client.post(URL, **binary(content, size=len(content), name="float64", datatype="FP64", shape=[4096, 3]))
        assert answer.status_code == 200


def compressed(content, coding, **headers):
    return {"content": content, "headers": {"Content-Encoding": coding, **headers}}


def test_a_compressed_body_is_read_and_one_that_is_broken_is_refused(client):
    body = json.dumps(request()).encode()
    for coding, content in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body)), (" GZIP ", gzip.compress(body))):
        assert client.post(URL, **compressed(content, coding)).status_code == 200
    sent = binary(ROW)
    assert client.post(URL, **compressed(gzip.compress(sent["content"]), "gzip", **sent["headers"])).status_code == 200
    for content, words in (
        (body, "the body is not compressed with gzip"),
        (gzip.compress(body)[:-9], "is cut off"),
        (b"", "is cut off"),
        (gzip.compress(body) + b"x", "bytes follow the end"),
    ):
        refused = client.post(URL, **compressed(content, "gzip"))
        assert (refused.status_code, words in refused.json()["error"]) == (400, True)
    refused = client.post(URL, **compressed(body, "br"))
    assert (refused.status_code, refused.json()["error"]) == (415, "the content encoding 'br' is not supported: use gzip, deflate, or none")
    assert client.post(URL, **compressed(body, "identity")).status_code == 200


def test_a_body_that_decompresses_to_more_than_the_limit_is_refused_before_it_is_all_in_memory(client):
    largest = []
    take = Budget.take

    def recorded(budget, count):
        largest.append(count)
        take(budget, count)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Budget, "take", recorded)
        refused = client.post(URL, **compressed(gzip.compress(b" " * 2**26), "gzip"))
    assert refused.status_code == 413
    assert sum(largest) < 2**21
    assert max(largest) <= compression._STEP_BYTES


def test_only_a_client_that_names_one_coding_gets_a_compressed_answer(client):
    many = request(shape=[300, 2], data=[1, 2] * 300)
    answers = [
        client.post(URL, json=many, headers={"Accept-Encoding": asked}) for asked in ("gzip", "deflate", "gzip, deflate", "br", "identity")
    ]
    assert [answer.headers.get("content-encoding") for answer in answers] == ["gzip", "deflate", None, None, None]
    assert answers[0].headers["vary"] == "accept-encoding"
    assert {answer.content for answer in answers} == {answers[4].content}
    small = client.post(URL, json=request(), headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


def test_decompression_gives_every_byte_whatever_the_chunks():
    content = np.random.default_rng(1).integers(0, 4, 700_000, np.uint8).tobytes() + b"\0" * 900_000
    stream, parts = io.BytesIO(gzip.compress(content)), []
    decompressor = compression.Decompressor("gzip")
    while chunk := stream.read(5_000):
        parts += decompressor.parts(chunk)
    decompressor.finish()
    assert b"".join(parts) == content
    assert max(map(len, parts)) <= compression._STEP_BYTES


def test_texts_in_json_and_in_binary_get_the_same_answer(tmp_path):
    for client in ready(make_texts(tmp_path)):
        content = bytes_of("好".encode(), b"x" * 5)
        sent = binary(content, size=len(content), name="text", datatype="BYTES", shape=[2])
        assert client.post(URL, **sent).json() == client.post(URL, json=text("好", "x" * 5)).json()


@pytest.mark.parametrize(("body", "status"), [(None, 200), ({"ready": True}, 200), ({"ready": 1}, 400), ([1], 400), ("x" * 5000, 413)])
def test_the_index_of_the_repository_has_the_model(client, body, status):
    answer = client.post("/v2/repository/index", json=body) if body is not None else client.post("/v2/repository/index")
    assert answer.status_code == status
    assert status != 200 or answer.json()[0]["state"] == "READY"
