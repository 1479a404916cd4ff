"""Requests, good and bad, and the bytes that a server answers to each: status line, headers and body.

`python -m tests.paddleship.shipped.serving.transports.http.recording CHECKOUT` writes recorded_answers.json from the server of a checkout.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from paddleship import __version__
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.shipped.serving.candidates import make_picking, make_tensors, make_texts

RECORDED = Path(__file__).with_name("recorded_answers.json")
INFER = "POST /v2/models/tiny/infer"
MEMORY_BYTES = 1_000_000  # so little that two unfinished bodies use up what requests may have


def request(**changes):
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]} | changes]}


def text(*texts, **changes):
    return {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": [*texts]} | changes]}


def pick(steps, length=3):
    return {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, length], "data": [1] * length},
            {"name": "steps", "datatype": "INT64", "shape": [1], "data": [steps]},
        ]
    }


def http(line, body=b"", headers=(), length=None):
    """The bytes of a request."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{line} HTTP/1.1", "Host: x", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def nested(body, depth):
    return json.dumps(body).replace('"NESTED"', "[" * depth + "]" * depth).encode()


TENSOR_BODIES = {
    "a row": request(),
    "two rows, nested": request(shape=[2, 2], data=[[1, 2], [3, 4]]),
    "whole numbers with a fraction of zero": request(data=[3.0, 4.0]),
    "an id, and outputs in another order": {"id": "7", **request(), "outputs": [{"name": "label"}, {"name": "scores"}]},
    "no outputs in the list": {**request(), "outputs": []},
    "half of the JSON": b"{",
    "a list": b"[]",
    "no JSON": b"\x00\xff\xfe",
    "an empty body": b"",
    "no inputs": b"{}",
    "inputs that are a number": b'{"inputs": 1}',
    "inputs of numbers": {"inputs": [1, 2]},
    "an empty list of inputs": {"inputs": []},
    "an input twice": {"inputs": request()["inputs"] * 2},
    "an unknown input": request(name="z"),
    "an unknown input with data that cannot be read": request(name="z", data=[[1], [2, 3]]),
    "no name": {"inputs": [{}]},
    "a name that is a list": request(name=[1]),
    "another datatype": request(datatype="FP64"),
    "an unknown datatype": request(datatype="WHAT"),
    "a datatype that is a list": request(datatype=[]),
    "another datatype and no data": request(datatype="FP64", data=None),
    "values that do not fit the shape": request(shape=[1, 3]),
    "one dimension": request(shape=[2]),
    "too few values per row": request(shape=[2, 1]),
    "a shape of text": request(shape="x"),
    "a negative shape": request(shape=[-1, 2]),
    "a shape of booleans": request(shape=[True, 2]),
    "no shape": request(shape=None),
    "text among numbers": request(data=[1, "a"]),
    "an object among numbers": request(data=[[1], [{}]]),
    "null among numbers": request(data=[[1, None]]),
    "ragged data": request(data=[[1], [2, 3]], shape=[1, 3]),
    "NaN": b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [NaN, 1]}]}',
    "the end of the data": b'{"inputs": [{"name": "NaN"',
    "true among numbers": request(data=[1, True]),
    "false among numbers": request(data=[[False, 7]]),
    "no data": request(data=None),
    "data of text": request(data="[1, 2]"),
    "a value above the range": request(data=[1, 101]),
    "a number beyond all types": request(data=[1, 2**70]),
    "no rows": request(data=[], shape=[0, 2]),
    "more rows than the largest batch": request(data=[1] * 2000, shape=[1000, 2]),
    "a shape beyond all memory": request(data=[], shape=[2**32, 2**32]),
    "empty rows": request(data=[], shape=[2, 0]),
    "data nested otherwise than the shape": request(data=[[1, 2, 3, 4]], shape=[2, 2]),
    "an output whose name is a list": {**request(), "outputs": [{"name": [1]}]},
    "outputs that are an object": {**request(), "outputs": {}},
    "outputs that are text": {**request(), "outputs": "all"},
    "an unknown output": {**request(), "outputs": [{"name": "z"}]},
    "an output without a name": {**request(), "outputs": [{}]},
    "an id that is a number": {**request(), "id": 7},
    "an id that is a number, and a bad row": {**request(data=[1, 101]), "id": 7},
    "an id that is deeply nested": nested({**request(), "id": "NESTED"}, 300),
    "a name that is deeply nested": nested(request(name="NESTED"), 1000),
    "100,000 brackets": b"[" * 50_000,
    "an answer that holds infinity": request(data=[1, 0]),
    "an answer that holds NaN": request(data=[-1, 1]),
    "too many objects": b"[" + b"{}," * 30_000 + b"{}]",
    "too many values": b"[" + b"1," * 100_000 + b"1]",
}
TENSOR_CALLS = {
    "the server": http("GET /v2"),
    "live": http("GET /v2/health/live"),
    "ready": http("GET /v2/health/ready"),
    "ready, its head": http("HEAD /v2/health/ready"),
    "metadata": http("GET /v2/models/tiny"),
    "the model is ready": http("GET /v2/models/tiny/ready"),
    "another model": http("POST /v2/models/other/infer", request()),
    "metadata of another model": http("GET /v2/models/other"),
    "another version": http("POST /v2/models/tiny/versions/7/infer", request()),
    "another path": http("GET /nowhere"),
    "a slash at the end": http("POST /v2/models/tiny/infer/", request()),
    "GET where POST is meant": http("GET /v2/models/tiny/infer"),
    "POST where GET is meant": http("POST /v2/models/tiny", request()),
    "DELETE": http("DELETE /v2/models/tiny"),
    "binary tensors": http(INFER, request(), ["Inference-Header-Content-Length: 10"]),
    "compressed": http(INFER, request(), ["Content-Encoding: gzip"]),
    "another content type": http(INFER, request(), ["Content-Type: text/plain"]),
    "identity": http(INFER, request(), ["Content-Encoding: identity"]),
    "HTTP/1.0": http(INFER, request()).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a connection that is to be closed": http(INFER, request(), ["Connection: close"]),
    "a bad request that expects 100": http("POST /v2/models/other/infer", request(), ["Expect: 100-continue"]),
    "a bad body that expects 100": http(INFER, request(name="z"), ["Expect: 100-continue"]),
    "too large by its head": http(INFER, b"", length=10**9),
    "too large": http(INFER, b" " * 100_000),
    "not HTTP": b"\x16\x03\x01\x02\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a large head": http("GET /v2", b"", [f"X: {'y' * 70_000}"]),
    "chunks": b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
}
TEXT_BODIES = {
    "text": text("好", "好x好"),
    "text that is cut": text("好x好x", "好x好xx", "  好 ", "x" * 5000),
    "text of surrogate pairs": text("😀" * 300),
    "a number where text is meant": text(7),
    "null where text is meant": text(None),
    "an empty text": text(""),
    "text in a list": text(["好"]),
    "a shape of another number of texts": text("好", shape=[2]),
    "text with two dimensions": text("好", shape=[1, 1]),
    "no texts": text(),
    "a run of combining marks": text("好", "a" + "\u0301\u0316" * 2000),
    "a run of combining marks, and an id that is a number": {**text("a" + "\u0301\u0316" * 2000), "id": 7},
}
PICK_BODIES = {
    "two inputs": pick(3),
    "a step that the runtime refuses": pick(4),
    "a step below its range": pick(0),
    "inputs of different numbers of rows": {
        "inputs": [pick(3)["inputs"][0], {"name": "steps", "datatype": "INT64", "shape": [2], "data": [1, 1]}]
    },
    "an input that is missing": {"inputs": pick(3)["inputs"][:1]},
    "an input that is missing, and one with a wrong datatype": {"inputs": [pick(3)["inputs"][0] | {"datatype": "FP64"}]},
    "a fraction where a whole number is meant": pick(1.5),
}
CALLS = {
    "tensors": {**TENSOR_CALLS, **{name: http(INFER, body) for name, body in TENSOR_BODIES.items()}},
    "texts": {"metadata": http("GET /v2/models/tiny"), **{name: http(INFER, body) for name, body in TEXT_BODIES.items()}},
    "picking": {"metadata": http("GET /v2/models/tiny"), **{name: http(INFER, body) for name, body in PICK_BODIES.items()}},
}
MAKE = {"tensors": make_tensors, "texts": make_texts, "picking": make_picking}


def answers(checkout, folder):
    """What a server of the code in `checkout` answers to each request, by candidate and name; `folder` is for the candidates."""
    answered = {}
    for kind, calls in CALLS.items():
        candidate = Candidate.load(MAKE[kind](folder / kind))
        with serving(checkout, folder / kind, *(["--max-batch", "256"] if kind == "tensors" else [])) as port:
            answered[kind] = {name: masked(exchange(port, call), candidate) for name, call in calls.items()}
    with serving(checkout, folder / "tensors", "--memory-bytes", str(MEMORY_BYTES)) as port, ExitStack() as opened:
        for _ in range(2):
            unfinished = opened.enter_context(closing(socket.create_connection(("127.0.0.1", port), 20)))
            unfinished.sendall(http(INFER, b"[" + b" " * 60_000, length=60_100))
        deadline = time.monotonic() + 300
        while not (answer := exchange(port, http(INFER, b" " * 30_000))).startswith(b"HTTP/1.1 503"):
            assert time.monotonic() < deadline
        answered["tensors"]["no memory left"] = masked(answer, None)
    return answered


@contextmanager
def serving(checkout, candidate, *options):
    """The port of the server of a checkout, as a process of its own."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(candidate), "--port", str(port), *options]
    fixed = {**os.environ, "PYTHONHASHSEED": "0"}  # Starlette keeps the methods of a path in a set, so their order differs by process
    process = subprocess.Popen(command, cwd=checkout, env=fixed, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not _is_ready(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=300)


def _is_ready(port):
    try:
        return exchange(port, http("GET /v2/health/ready")).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def exchange(port, call):
    """All bytes that a server answers to one request."""
    with closing(socket.create_connection(("127.0.0.1", port), 20)) as connection:
        connection.sendall(call)
        received = b""
        while not _is_whole(received, call) and (chunk := connection.recv(2**16)):
            received += chunk
        return received


def _is_whole(received, call):
    head, end, body = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end and length) and (call.startswith(b"HEAD") or len(body) >= int(length[1]))


def masked(answer, candidate):
    """The answer as text, without what depends on the day and on the versions of paddleship, onnx and ONNX Runtime."""
    shown = re.sub(r"(?m)^date: .*?\r$", "date: …\r", answer.decode()).replace(f'"version":"{__version__}"', '"version":"…"')
    if shown.startswith("HTTP/1.1 422"):
        shown = re.sub(r"input \(.*\):", "input (…):", re.sub(r"(?m)^content-length: .*?\r$", "content-length: …\r", shown))
    return shown if candidate is None else shown.replace(candidate.digest, "DIGEST").replace(candidate.digest[:12], "VERSION")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = answers(Path(sys.argv[1]), Path(made))
    RECORDED.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
