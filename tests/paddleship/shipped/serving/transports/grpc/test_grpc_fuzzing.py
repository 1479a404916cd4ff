"""A fuzzer of gRPC: good messages get the right answer, bad ones a code of the client's errors, and the server goes on."""

from contextlib import closing

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import InferResult, service_pb2

from paddleship.shipped.serving.transports.grpc.messages import SERVICE
from tests.paddleship.shipped.serving.transports import fuzzing, grpc_server
from tests.paddleship.shipped.serving.transports.fuzzing import DATATYPES, NAMES, SHAPES, broken

REFUSALS = {grpc.StatusCode[name] for name in ("INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "UNAVAILABLE")}
FIELDS = {"bool": "bool_contents", "int8": "int_contents", "int64": "int64_contents", "float32": "fp32_contents"}
CONTENTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("int_contents",), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4)),
        **dict.fromkeys(("int64_contents",), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
        **{"bool_contents": st.lists(st.booleans(), max_size=4), "fp32_contents": st.lists(st.floats(width=32), max_size=4)},
        "bytes_contents": st.lists(st.binary(max_size=5), max_size=4),
    },
)
PARAMETERS = st.dictionaries(NAMES.filter(str.isprintable), st.fixed_dictionaries({"int64_param": st.integers(0, 9)}), max_size=2)


def message(columns, **changes):
    """A good message, with raw contents."""
    items = [{"name": name, "datatype": DATATYPES[name], "shape": values.shape} for name, values in columns.items()]
    fields = {"model_name": "tiny", "inputs": items, "raw_input_contents": [values.tobytes() for values in columns.values()]}
    return fields | changes


@st.composite
def bad(draw):
    """The bytes of a message that is probably bad."""
    fields = message(draw(fuzzing.columns()))
    text = st.text(max_size=8)
    for _ in range(draw(st.integers(0, 2))):
        item = draw(st.sampled_from([fields, *fields["inputs"]])) if fields["inputs"] else fields
        if item is fields:
            key = draw(st.sampled_from(["model_name", "model_version", "id", "parameters", "inputs", "outputs", "raw_input_contents"]))
            raw, names = st.lists(st.binary(max_size=30), max_size=6), st.lists(st.fixed_dictionaries({"name": NAMES | text}), max_size=3)
            value = draw({"inputs": names, "outputs": names, "raw_input_contents": raw, "parameters": PARAMETERS}.get(key, text))
        else:
            key = draw(st.sampled_from(["name", "datatype", "shape", "contents", "parameters"]))
            value = draw({"shape": SHAPES, "contents": CONTENTS, "parameters": PARAMETERS}.get(key, NAMES | text))
        item[key] = value
    content = service_pb2.ModelInferRequest(**fields).SerializeToString()
    return draw(st.just(content) | broken(content))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = fuzzing.make(tmp_path_factory.mktemp("model"))
    served = grpc_server.in_process(folder, max_batch=fuzzing.MOST_ROWS)
    with served as (service, address), closing(grpc.insecure_channel(address)) as channel:
        yield service, channel


def ask_good(channel, count):
    """Send so many good messages, each of which gets its values back."""
    call = channel.unary_unary(f"/{SERVICE}/ModelInfer")

    @fuzzing.examples(count)
    @given(fuzzing.columns())
    def ask(columns):
        answer = service_pb2.ModelInferResponse.FromString(call(service_pb2.ModelInferRequest(**message(columns)).SerializeToString()))
        result = InferResult(answer)
        fuzzing.same({output.name: result.as_numpy(output.name) for output in answer.outputs}, columns)

    ask()


def ask_bad(channel, count, mutants):
    """Send so many messages that are probably bad, and as many changed ones of each: none is an error of the server."""
    methods = st.sampled_from(["ModelInfer"] * 9 + ["ModelMetadata", "ModelReady", "ServerReady", "RepositoryIndex", "NoMethod"])

    @fuzzing.examples(count)
    @given(bad(), methods, fuzzing.SEEDS)
    def ask(content, method, seed):
        for body in fuzzing.mutants(content, seed, mutants):
            call = channel.unary_unary(f"/{SERVICE}/{method}").future(body)
            assert call.code() in {grpc.StatusCode.OK, *REFUSALS}, (call.code(), call.details())

    ask()
    good = service_pb2.ModelInferRequest(**message({name: np.ones((1, 3), name) for name in DATATYPES})).SerializeToString()
    assert channel.unary_unary(f"/{SERVICE}/ModelInfer")(good)


@fuzzing.GOOD
def test_good_messages_get_their_values_back(server, count):
    ask_good(server[1], count)
    grpc_server.wait_until(lambda: not server[0].budget.used)


@fuzzing.BAD
def test_no_bad_message_is_an_error_of_the_server(server, count, mutants):
    ask_bad(server[1], count, mutants)
    grpc_server.wait_until(lambda: not server[0].budget.used)
