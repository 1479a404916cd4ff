"""The server over gRPC, asked by tritonclient and by messages that it would not send."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from grpc import RpcError, StatusCode
from grpc.aio import EOF, InternalError
from grpc_tools import protoc
from tritonclient import grpc as triton
from tritonclient.grpc import aio, service_pb2
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from paddleship.acceptance.transports.grpc import malformed
from paddleship.errors import RequestError
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.grpc import limits, messages, statuses, wire
from paddleship.shipped.serving.transports.grpc.limits import MessageLimits
from paddleship.shipped.serving.transports.grpc.servicer import Servicer
from tests.paddleship.shipped.serving.candidates import make_all_datatypes, make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports import grpc_server
from tests.paddleship.shipped.serving.transports.grpc_server import wait_until
from tests.paddleship.shipped.serving.transports.http.test_binary import ROWS
from tests.pictures import drawn, encoded

FIELDS = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int64",
    "uint8": "uint",
    "float32": "fp32",
    "float64": "fp64",
}


def columns():
    return {name: np.array(row, name) for name, row in ROWS.items()}


def inputs(**columns):
    made = []
    for name, values in columns.items():
        made.append(triton.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype)))
        made[-1].set_data_from_numpy(values)
    return made


@pytest.fixture(scope="module")
def all_datatypes(tmp_path_factory):
    with grpc_server.in_process(make_all_datatypes(tmp_path_factory.mktemp("all"))) as (_, address):
        yield address


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    with grpc_server.in_process(make_tensors(tmp_path_factory.mktemp("tensors")), max_batch=256) as server:
        yield server


@pytest.fixture(scope="module")
def client(tensors):
    with closing(triton.InferenceServerClient(tensors[1])) as client:
        yield client


def request(raw=None, **changes):
    """A request of one row of two numbers, in the field of its type or raw."""
    item = {"name": "x", "datatype": "FP32", "shape": [1, 2]} | changes
    if raw is None:
        item.setdefault("contents", {"fp32_contents": [3, 4]})
    return service_pb2.ModelInferRequest(model_name="tiny", inputs=[item], raw_input_contents=raw or [])


ROW = np.float32([3, 4]).tobytes()


def test_triton_at_its_defaults_sends_and_reads_every_datatype(all_datatypes):
    with closing(triton.InferenceServerClient(all_datatypes)) as client:
        result = client.infer("tiny", inputs(**columns()), request_id="7")
    assert result.get_response().id == "7"
    for name, values in columns().items():
        assert result.as_numpy(f"{name}_out").dtype == values.dtype
        assert np.array_equal(result.as_numpy(f"{name}_out"), values)


def test_every_datatype_with_a_field_is_read_from_it(tmp_path):
    with (
        grpc_server.in_process(make_all_datatypes(tmp_path, tuple(FIELDS))) as (_, address),
        closing(triton.InferenceServerClient(address)) as client,
    ):
        items = [
            {
                "name": name,
                "datatype": np_to_triton_dtype(np.dtype(name)),
                "shape": [1, 3],
                "contents": {f"{field}_contents": ROWS[name][0]},
            }
            for name, field in FIELDS.items()
        ]
        response = client._client_stub.ModelInfer(service_pb2.ModelInferRequest(model_name="tiny", inputs=items))
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
            name = output.name.removesuffix("_out")
            assert np.array_equal(np.frombuffer(raw, name), columns()[name].ravel())


def test_texts_are_answered_to_triton_s_async_client_also_compressed(tmp_path):
    async def ask(address):
        async with aio.InferenceServerClient(address) as client:
            many = inputs(text=np.array(["好x"] * 300, object))
            one = await client.infer("tiny", inputs(text=np.array(["好", "好x好xx"], object)))
            return one, (await client.infer("tiny", many, compression_algorithm="gzip")).as_numpy("values")

    with grpc_server.in_process(make_texts(tmp_path)) as (service, address):
        one, many = asyncio.run(ask(address))
        with closing(triton.InferenceServerClient(address)) as client:
            item = {"name": "text", "datatype": "BYTES", "shape": [1], "contents": {"bytes_contents": ["好".encode()]}}
            plain = client._client_stub.ModelInfer(service_pb2.ModelInferRequest(model_name="tiny", inputs=[item]))
            broken = service_pb2.ModelInferRequest(model_name="tiny", inputs=[item | {"contents": {"bytes_contents": [b"\xff"]}}])
            with pytest.raises(RpcError, match="is not UTF-8"):
                client._client_stub.ModelInfer(broken)
        wait_until(lambda: not service.budget.used)
    assert one.as_numpy("values").tolist() == [[2, 0, 0, 0], [2, 1, 2, 1]]
    assert one.get_response().parameters["truncated"].string_param == '[{"input":"text","row":1,"length":5,"kept":4}]'
    assert many.tolist() == [[2, 1]] * 300
    assert np.frombuffer(plain.raw_output_contents[0], np.float32).tolist() == [2, 0]


def test_pictures_are_sent_as_they_are(tmp_path):
    with grpc_server.in_process(make_pictures(tmp_path)) as (_, address), closing(triton.InferenceServerClient(address)) as client:
        assert client.infer("tiny", inputs(photo=np.array([encoded(drawn(seed=1))], object))).as_numpy("pixels").shape == (1, 3, 8, 8)
        with pytest.raises(InferenceServerException, match="picture"):
            client.infer("tiny", inputs(photo=np.array([b"\xff no picture"], object)))


def test_triton_sees_the_server_its_model_and_the_index_of_its_repository(client):
    metadata = client.get_model_metadata("tiny", as_json=True)
    version = metadata["versions"][0]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "2"]}]
    assert [output["name"] for output in metadata["outputs"]] == ["scores", "logs", "label"]
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny", version)
    assert client.get_server_metadata().name == "paddleship"
    assert [(entry.name, entry.state) for entry in client.get_model_repository_index().models] == [("tiny", "READY")]
    with pytest.raises(InferenceServerException, match="there is no model 'other': this server has 'tiny'"):
        client.get_model_metadata("other")


def test_outputs_are_those_that_the_request_names_and_may_hold_nan(client):
    asked = [triton.InferRequestedOutput(name) for name in ("label", "logs")]
    result = client.infer("tiny", inputs(x=np.float32([[1, 0]])), outputs=asked)
    assert [output.name for output in result.get_response().outputs] == ["label", "logs"]
    assert result.as_numpy("logs").tolist() == [[0, -np.inf]]
    assert result.as_numpy("label").tolist() == ["否".encode()]


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (service_pb2.ModelInferRequest(model_name="other"), StatusCode.NOT_FOUND, "there is no model 'other'"),
        (service_pb2.ModelInferRequest(model_name="tiny", model_version="7"), StatusCode.NOT_FOUND, "there is no version '7'"),
        (service_pb2.ModelInferRequest(model_name="tiny"), StatusCode.INVALID_ARGUMENT, "input 'x' is missing"),
        (request(name="z" * 10_000), StatusCode.INVALID_ARGUMENT, "there is no input 'zzz"),
        (request(name="z"), StatusCode.INVALID_ARGUMENT, "there is no input 'z': this model takes x"),
        (request(datatype="FP64"), StatusCode.INVALID_ARGUMENT, "send FP32"),
        (request(shape=[1, 3]), StatusCode.INVALID_ARGUMENT, "has 2 values, its shape [1, 3] needs 3"),
        (request(shape=[-1, 2]), StatusCode.INVALID_ARGUMENT, "none below 0"),
        (request(shape=[2**62, 2**62]), StatusCode.INVALID_ARGUMENT, "has 2 values"),
        (request(shape=[0, 2**62, 2**62], contents={}), StatusCode.INVALID_ARGUMENT, "which is too large"),
        (request(shape=[1] * 40), StatusCode.INVALID_ARGUMENT, "has more than 32 dimensions"),
        (
            request(contents={"fp64_contents": [3, 4]}),
            StatusCode.INVALID_ARGUMENT,
            "has fp64_contents: send its values in fp32_contents, or raw",
        ),
        (request(contents={"fp32_contents": [1, 101]}), StatusCode.INVALID_ARGUMENT, "is outside -1 … 100"),
        (request(contents={"fp32_contents": [1, np.nan]}), StatusCode.INVALID_ARGUMENT, "must be finite"),
        (request([ROW[:7]]), StatusCode.INVALID_ARGUMENT, "has 7 bytes, its shape [1, 2] of FP32 needs 8"),
        (request([ROW], shape=[2**62, 2**62]), StatusCode.INVALID_ARGUMENT, "has 8 bytes"),
        (request([ROW, ROW]), StatusCode.INVALID_ARGUMENT, "has 1 inputs and 2 raw contents"),
        (request([ROW], contents={"fp32_contents": [3, 4]}), StatusCode.INVALID_ARGUMENT, "send raw contents for every input, or for none"),
        (request([ROW * 257], shape=[257, 2]), StatusCode.INVALID_ARGUMENT, "the request has 257 rows, this server takes 1 to 256"),
        (request([ROW * 100_000], shape=[100_000, 2]), StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
)
def test_a_bad_request_is_refused_by_a_code_and_a_message(client, tensors, sent, code, words):
    with pytest.raises(RpcError) as refused:
        client._client_stub.ModelInfer(sent)
    assert refused.value.code() is code
    assert words in refused.value.details()
    assert client.infer("tiny", inputs(x=np.float32([[3, 4]]))).as_numpy("scores").tolist() == [[7, -3]]
    wait_until(lambda: not tensors[0].budget.used)


def test_what_is_no_message_is_refused_for_every_method_that_reads_it(client):
    for method in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods[2:6]:
        call = client._channel.unary_unary(f"/{messages.SERVICE}/{method.name}")
        with pytest.raises(RpcError, match="INVALID_ARGUMENT"):
            call(b"\xff\xff\xff")


def test_half_floats_have_no_field_and_are_sent_raw(all_datatypes):
    item = {"name": "float16", "datatype": "FP16", "shape": [1, 3], "contents": {"fp32_contents": [1, 2, 3]}}
    others = [
        {"name": name, "datatype": np_to_triton_dtype(np.dtype(name)), "shape": [1, 3], "contents": {f"{field}_contents": ROWS[name][0]}}
        for name, field in FIELDS.items()
    ]
    with closing(triton.InferenceServerClient(all_datatypes)) as client, pytest.raises(RpcError, match="FP16 has no raw contents"):
        client._client_stub.ModelInfer(service_pb2.ModelInferRequest(model_name="tiny", inputs=[item, *others]))


LIMITS = MessageLimits(max_bytes=10**6, max_fields=50, max_decoded_bytes=8_000, readers=2)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"\x2a\x00" * 60, "more than 50 fields"),
        (b"\x3a\x00" * 60, "more than 50 fields"),
        (b"\x2a\x78" + b"\x18\x01" * 60, "more than 50 fields"),  # a shape
        (request(contents={"bytes_contents": [b""] * 60}).SerializeToString(), "more than 50 fields"),
        (request(contents={"int64_contents": [1] * 2000}).SerializeToString(), "more numbers than this server decodes"),
        (request(shape=[1] * 2000).SerializeToString(), "more numbers than this server decodes"),
        (b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "is not a ModelInferRequest"),
        (b"\x2a\x05\x00", "is not a ModelInferRequest"),
        (b"\xff" * 20, "is not a ModelInferRequest"),
        (b"\x2b", "is not a ModelInferRequest"),
    ],
)
def test_a_large_message_is_refused_before_it_is_decoded_to_much_more(message, words):
    with pytest.raises((RequestError, ServingError), match=words):
        wire.check(message, LIMITS)


def test_a_good_message_passes_the_check_of_large_ones():
    wire.check(request([ROW]).SerializeToString(), LIMITS)
    wire.check(request(contents={"fp32_contents": [1] * 10_000}).SerializeToString(), LIMITS)
    wire.check(request(contents={"int64_contents": [1] * 900}).SerializeToString(), LIMITS)


def test_a_request_whose_client_has_gone_is_not_computed_and_gives_its_room_back(tmp_path):
    with grpc_server.in_process(make_tensors(tmp_path)) as (service, address), closing(triton.InferenceServerClient(address)) as client:
        held = threading.Event()
        service._thread.submit(held.wait, 20)
        service._quick_from = float("inf")
        call = client._client_stub.ModelInfer.future(request([ROW]))
        wait_until(lambda: service.budget.used)
        call.cancel()
        wait_until(lambda: not service.budget.used)
        assert [waiting._content for waiting in service.queue._classes[0].waiting] == [b""]
        held.set()
        assert client.infer("tiny", inputs(x=np.float32([[3, 4]]))).as_numpy("scores").tolist() == [[7, -3]]


def test_no_room_in_the_budget_is_unavailable(tmp_path):
    with (
        grpc_server.in_process(make_tensors(tmp_path), in_flight_bytes=20) as (_, address),
        closing(triton.InferenceServerClient(address)) as client,
    ):
        with pytest.raises(RpcError) as refused:
            client._client_stub.ModelInfer(request([ROW]))
        assert refused.value.code() is StatusCode.UNAVAILABLE


def test_a_message_that_is_not_completed_is_refused_and_lets_others_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_READ_S", 0)
    monkeypatch.setattr(limits, "_MOST_READERS", 1)
    with grpc_server.in_process(make_tensors(tmp_path)) as (service, address), closing(triton.InferenceServerClient(address)) as client:
        host, port = address.split(":")
        with closing(socket.create_connection((host, int(port)), timeout=20)) as slow:
            slow.sendall(malformed.half_sent(f"/{messages.SERVICE}/ModelInfer", 1_000, 2_000))
            received = b""
            while b"was%20not" not in received and b"was not complete after" not in received:
                received += slow.recv(2**16)
            assert client.infer("tiny", inputs(x=np.float32([[3, 4]]))).as_numpy("scores").tolist() == [[7, -3]]
        wait_until(lambda: not service.budget.used)


def test_an_answer_that_is_not_read_is_ended_and_gives_its_room_back():
    class Deaf:
        async def write(self, content):
            await asyncio.Event().wait()

    async def write():
        servicer = Servicer(SimpleNamespace(budget=Budget(100)), LIMITS)
        task = asyncio.create_task(servicer._write(Deaf(), b"x" * 10))
        await asyncio.sleep(0)
        assert servicer._service.budget.used == 20
        servicer.deadlines.look(asyncio.get_running_loop().time() + limits.WRITE_S + 1)
        with pytest.raises(RequestError, match="was not read within 30 s"):
            await task
        assert servicer._service.budget.used == 0

    asyncio.run(write())


def test_a_client_that_goes_while_its_message_is_read_has_sent_no_bad_request():
    class Gone:
        async def read(self):
            return EOF

        def cancelled(self):
            return True

    async def read():
        servicer = Servicer(SimpleNamespace(), LIMITS)
        with pytest.raises(asyncio.CancelledError):
            await servicer._read(Gone(), asyncio.Semaphore())

    asyncio.run(read())


def test_a_client_that_has_gone_when_its_answer_is_written_is_no_failure_of_the_server():
    class Gone:
        async def write(self, content):
            raise InternalError

    async def write():
        servicer = Servicer(SimpleNamespace(budget=Budget(100)), LIMITS)
        with pytest.raises(asyncio.CancelledError):
            await servicer._write(Gone(), b"x" * 10)
        assert servicer._service.budget.used == 0

    asyncio.run(write())


def test_readers_are_as_many_as_fit_into_the_memory(tmp_path):
    class Model:
        limits = type("Limits", (), {"max_batch": 8, "memory_bytes": 2**28})
        requests, longest_text, largest_bytes = [], None, None
        candidate = type("Candidate", (), {"dimensions": ()})

    assert limits.of_messages(Model).readers == 128
    Model.largest_bytes = 10**9
    assert limits.of_messages(Model).max_bytes == 2**24
    assert limits.of_messages(Model).readers == 2


def test_every_kind_of_failure_has_a_code_and_a_defect_tells_nothing():
    assert statuses.CODES.keys() == {*Kind}
    assert statuses.status(KeyError("secret"))[1] == "the model failed on this request: see the server's log"


def test_the_compiled_messages_are_those_of_the_proto_file(tmp_path):
    folder = messages._COMPILED.parent
    assert not protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={tmp_path / 'made'}", str(folder / "open_inference.proto")])
    assert (tmp_path / "made").read_bytes() == messages._COMPILED.read_bytes()


def test_the_numbers_of_all_fields_are_those_of_triton():
    def fields(message):
        return {field.name: (field.number, field.type) for field in message.fields}

    for name, ours in messages.CLASSES.items():
        theirs = service_pb2.DESCRIPTOR.message_types_by_name[name]
        assert fields(ours.DESCRIPTOR) == fields(theirs)
        for inner in ours.DESCRIPTOR.nested_types:
            assert fields(inner) == fields(theirs.nested_types_by_name[inner.name])


def test_one_process_answers_over_http_and_grpc_and_sigterm_ends_it(tmp_path):
    folder, port = make_tensors(tmp_path), grpc_server.free_port()
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(grpc_server.free_port())]
    process = subprocess.Popen([*command, "--also", f"grpc:{port}"], cwd=grpc_server.REPOSITORY, stderr=subprocess.PIPE, encoding="utf-8")
    with closing(triton.InferenceServerClient(f"127.0.0.1:{port}")) as client:
        call = client._client_stub.ModelInfer(request([ROW]), wait_for_ready=True, timeout=30)
        assert call.outputs[0].name == "scores"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGTERM), log


def test_a_port_in_use_ends_the_process_with_one_line(tmp_path):
    folder = make_tensors(tmp_path)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(grpc_server.free_port())]
        command += ["--also", f"grpc:{taken.getsockname()[1]}"]
        done = subprocess.run(command, cwd=grpc_server.REPOSITORY, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == 4
    assert "is unavailable: choose another with --also grpc:PORT" in done.stderr
