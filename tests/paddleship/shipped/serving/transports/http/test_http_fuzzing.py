"""A fuzzer of HTTP: good requests get the right answer, bad ones a clear 4xx, and the server goes on."""

import asyncio
import gzip
import http.client
import json
import threading
import time
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.http.app import App
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.server import make_server
from tests.paddleship.shipped.serving.transports import fuzzing
from tests.paddleship.shipped.serving.transports.fuzzing import DATATYPES, NAMES, SCALARS, SHAPES, VALUES, broken

URL, JSON_BYTES = "/v2/models/tiny/infer", "Inference-Header-Content-Length"
REFUSALS = {400, 404, 405, 408, 413, 415, 422, 429, 431, 503}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


@contextmanager
def served(folder):
    """The port of a server in this process, and its budget."""
    service = Service(lambda: ServedModel(folder, max_batch=fuzzing.MOST_ROWS), Budget(2**24))
    guard = Guard(ConnectionLimits(), service.budget)
    server = make_server(App(service, guard, on_failure=pytest.fail), guard, host="127.0.0.1", port=0)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),))
    thread.start()
    try:
        while not server.started or service.state is State.LOADING:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1], service.budget
    finally:
        server.should_exit = True
        thread.join()


def encode(columns, binary, parameters=None):
    """A request, and the bytes of its JSON; the columns in `binary` follow it."""
    items, content = [], b""
    for name, values in columns.items():
        item = {"name": name, "datatype": DATATYPES[name], "shape": [*values.shape]}
        if name in binary:
            items.append(item | {"parameters": {"binary_data_size": values.nbytes}})
            content += values.tobytes()
        else:
            items.append(item | {"data": values.ravel().tolist()})
    return {"inputs": items, **(parameters or {})}, content


def decode(body, json_bytes):
    """The outputs of an answer by name."""
    head, rest = json.loads(body[:json_bytes]), body[json_bytes or len(body) :]
    outputs = {}
    for item in head["outputs"]:
        dtype = np.dtype(next(name for name, datatype in DATATYPES.items() if datatype == item["datatype"]))
        if "data" in item:
            values = np.array(item["data"], dtype)
        else:
            size = item["parameters"]["binary_data_size"]
            values, rest = np.frombuffer(rest[:size], dtype), rest[size:]
        outputs[item["name"]] = values.reshape(item["shape"])
    assert not rest
    return outputs


@st.composite
def good(draw):
    """A good request and its columns."""
    columns = draw(fuzzing.columns())
    names = st.sets(st.sampled_from([*columns]))
    outputs = [{"name": f"{name}_out", "parameters": {"binary_data": draw(st.booleans())}} for name in columns]
    parameters = draw(st.sampled_from([{}, {"parameters": {"binary_data_output": True}}, {"outputs": outputs}, {"id": "7"}]))
    return columns, *encode(columns, draw(names), parameters)


@st.composite
def bad(draw):
    """A request that is probably bad: one value of its JSON is another, or its bytes, or its headers."""
    _, request, content = draw(good())
    for _ in range(draw(st.integers(0, 2))):
        item = draw(st.sampled_from([request, *request["inputs"]])) if isinstance(request.get("inputs"), list) else request
        if not isinstance(item, dict):
            continue
        key = draw(st.sampled_from(["name", "datatype", "shape", "data", "parameters", "inputs", "outputs", "id", "binary_data_size"]))
        value = draw({"shape": SHAPES, "name": NAMES, "datatype": NAMES}.get(key, VALUES) | VALUES)
        if key == "binary_data_size":
            key, value = "parameters", {key: draw(SCALARS | st.integers(-1, 100))}
        item[key] = value
    head = json.dumps(request).encode()
    body, length = head + content, str(len(head))
    if draw(st.booleans()):
        body = draw(broken(body))
    headers = {JSON_BYTES: length} if content or draw(st.booleans()) else {}
    if draw(st.integers(0, 9)) == 0:
        headers[JSON_BYTES] = draw(st.integers(-5, 2**70).map(str) | st.sampled_from(["", "x", "1e3", "0"]))
    coding = draw(st.sampled_from([None, None, None, "gzip", "deflate", "br", "identity"]))
    if coding:
        headers["Content-Encoding"] = coding
        packed = CODINGS.get(coding, bytes)(body)
        body = draw(st.just(packed) | broken(packed))
    if draw(st.booleans()):
        headers["Accept-Encoding"] = draw(st.sampled_from(["gzip", "deflate", "gzip, deflate", "*", ""]))
    return headers, body


def exchange(connection, headers, body, url=URL, method="POST"):
    connection.request(method, url, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if coding := answer.getheader("Content-Encoding"):
        content = zlib.decompress(content, {"gzip": 31, "deflate": 15}[coding])
    length = answer.getheader(JSON_BYTES)
    return answer.status, content, int(length) if length else None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(fuzzing.make(tmp_path_factory.mktemp("model"))) as server:
        yield server


def ask_good(address, count):
    """Send so many good requests in every form, each of which gets its values back."""
    connection = http.client.HTTPConnection(*address, timeout=60)

    @fuzzing.examples(count)
    @given(good(), st.sampled_from([None, *CODINGS]), st.sampled_from(["identity", *CODINGS]))
    def ask(request, coding, wanted):
        columns, request, content = request
        head = json.dumps(request).encode()
        headers = {
            "Accept-Encoding": wanted,
            **({JSON_BYTES: str(len(head))} if content else {}),
            **({"Content-Encoding": coding} if coding else {}),
        }
        status, body, length = exchange(connection, headers, CODINGS.get(coding, bytes)(head + content))
        assert status == 200, body
        fuzzing.same(decode(body, length), columns)

    ask()
    connection.close()


def ask_bad(address, count, mutants):
    """Send so many requests that are probably bad, and as many changed ones of each: none is an error of the server."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    paths = st.sampled_from(
        [URL] * 9 + ["/v2/repository/index", "/v2/models/tiny", "/v2/models/%00/infer", "/v2/models/tiny/versions/7/infer"]
    )

    @fuzzing.examples(count)
    @given(bad(), paths, st.sampled_from(["POST"] * 9 + ["GET", "PUT"]), fuzzing.SEEDS)
    def ask(request, url, method, seed):
        headers, content = request
        for body in fuzzing.mutants(content, seed, mutants):
            status, answer, length = exchange(connection, headers, body, url, method)
            if status == 200:
                assert json.loads(answer[:length]) is not None
            else:
                assert status in REFUSALS, answer
                assert json.loads(answer).keys() == {"error"}

    ask()
    status, body, _ = exchange(connection, {}, json.dumps(encode({name: np.ones((1, 3), name) for name in DATATYPES}, ())[0]).encode())
    assert status == 200, body
    connection.close()


@fuzzing.GOOD
def test_good_requests_in_every_form_get_their_values_back(server, count):
    ask_good(("127.0.0.1", server[0]), count)
    assert server[1].used == 0


@fuzzing.BAD
def test_no_bad_request_is_an_error_of_the_server(server, count, mutants):
    ask_bad(("127.0.0.1", server[0]), count, mutants)
    assert server[1].used == 0
