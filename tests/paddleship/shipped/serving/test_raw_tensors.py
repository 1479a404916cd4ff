"""The parameter raw_tensors: the inputs of the model instead of raw values, within the same limits, over every transport."""

from collections import deque
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from paddleship.errors import RequestError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.spec import Dimension, TensorSpec
from paddleship.shipped.serving.batching import Answering
from paddleship.shipped.serving.columns import ModelInputs
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.settings import Settings
from tests.paddleship.shipped.serving.asked import Asked
from tests.paddleship.shipped.serving.candidates import make_candidate, make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports import grpc_server

INFER = "/v2/models/tiny/infer"
IDS = np.int64([[2, 3, 0, 0], [3, 3, 2, 1]])
WRONG = {
    "an id above the vocabulary": (np.int64([[2, 4]]), r"'ids' is outside 0 … 3 \(got 2 … 4\)"),
    "an id far above": (np.int64([[2, 2**62]]), "'ids' is outside 0 … 3"),
    "a negative id": (np.int64([[-1, 2]]), "'ids' is outside 0 … 3"),
    "a length that was not proven": (np.int64([[1, 2, 3]]), r"size 3 in the dimension 'length', the model takes 2 … 4 in multiples of 2"),
    "a length beyond the largest": (np.int64([[1] * 6]), "size 6 in the dimension 'length'"),
    "no length": (np.zeros((1, 0), np.int64), "its rows are empty"),
    "another dtype": (np.int32([[1, 2]]), "'ids' has the datatype 'INT32': send INT64"),
    "another rank": (np.int64([1, 2]), "the model takes"),
    "no rows": (np.zeros((0, 2), np.int64), "has no rows"),
    "too many rows": (np.ones((9, 2), np.int64), "has 9 rows, this server takes 1 to 8"),
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The sum and twice the maximum of the ids of the first four characters."""
    folder = tmp_path_factory.mktemp("texts")
    axis = helper.make_node("Constant", [], ["axis"], value=helper.make_tensor("axis", TensorProto.INT64, [1], [1]))
    nodes = [axis, helper.make_node("Cast", ["ids"], ["values"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("ReduceSum", ["values", "axis"], ["sum"]), helper.make_node("ReduceMax", ["values"], ["max"], axes=[1])]
    nodes += [helper.make_node("Add", ["max", "max"], ["twice"]), helper.make_node("Concat", ["sum", "twice"], ["scores"], axis=1)]
    specs = [TensorSpec("ids", "int64", ("batch", "length"), low=0, high=3)], [TensorSpec("scores", "float32", ("batch", 2))]
    preprocess = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["好", "差"]}
    preprocess |= {"unicode_form": "NFKC", "max_length": 4, "multiple_of": 2}
    facts = {"preprocess": preprocess, "dimensions": (Dimension("length", 2, 4, 2),), "max_batch": 8}
    make_candidate(folder, nodes, *specs, task="classification", classes=("sum", "maximum"), **facts)
    return folder


@pytest.fixture(scope="module")
def ports(texts):
    with grpc_server.process(texts) as ports:
        yield ports


@pytest.fixture(params=["JSON", "binary", "gRPC"])
def ask(request, ports):
    """Ask with tritonclient in one form: inputs by name, and the parameters of the request."""
    module, port = (grpc_client, ports[1]) if request.param == "gRPC" else (http_client, ports[0])
    binary = {} if request.param == "gRPC" else {"binary_data": request.param == "binary"}

    def ask(*, raw=True, outputs=None, **inputs):
        made = []
        for name, values in inputs.items():
            datatype = {"O": "BYTES", "i": f"INT{8 * values.dtype.itemsize}"}[values.dtype.kind]
            made.append(module.InferInput(name, list(values.shape), datatype).set_data_from_numpy(values, **binary))
        wanted = [module.InferRequestedOutput(name, **binary) for name in outputs or ["scores"]]
        return client.infer("tiny", made, outputs=wanted, parameters={"raw_tensors": raw} if raw is not None else None)

    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield ask


def test_raw_tensors_are_answered_as_the_candidate_answers_them_in_process(ask, texts):
    expected = runtimes.load(texts).run({"ids": IDS})["scores"]
    answer = ask(ids=IDS)
    np.testing.assert_array_equal(answer.as_numpy("scores"), expected)
    assert answer.as_numpy("label") is None


def test_a_text_and_its_ids_have_the_same_scores_and_without_the_parameter_nothing_changes(ask, texts):
    model = ServedModel(texts)
    (example,) = model.encode({"text": ["好差好"]})
    batch = model.collate([example])
    for raw in (False, None):
        answer = ask(raw=raw, text=np.array(["好差好"], object), outputs=["scores", "label"])
        np.testing.assert_array_equal(answer.as_numpy("scores"), ask(ids=batch["ids"]).as_numpy("scores"))
        assert answer.as_numpy("label") is not None


@pytest.mark.parametrize("what", WRONG)
def test_what_no_preprocess_makes_is_an_error_of_the_client(ask, what):
    ids, message = WRONG[what]
    with pytest.raises(InferenceServerException, match=message) as raised:
        ask(ids=ids)
    assert raised.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert ask(ids=IDS).as_numpy("scores").shape == (2, 2)


def test_a_raw_value_with_the_parameter_and_ids_without_it_are_errors_of_the_client(ask):
    with pytest.raises(InferenceServerException, match=r"there is no input 'text': this model takes ids"):
        ask(text=np.array(["好"], object))
    with pytest.raises(InferenceServerException, match=r"there is no input 'ids': this model takes text"):
        ask(raw=False, ids=IDS)
    with pytest.raises(InferenceServerException, match=r"there is no output 'label': this model gives scores"):
        ask(ids=IDS, outputs=["label"])


def test_an_id_in_json_that_loses_digits_as_a_float_is_refused(ports):
    item = '{"name": "ids", "datatype": "INT64", "shape": [1, 2], "data": [1, 9007199254740993.0]}'
    body = f'{{"parameters": {{"raw_tensors": true}}, "inputs": [{item}]}}'.encode()
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"http://127.0.0.1:{ports[0]}{INFER}", body), timeout=60)
    assert refused.value.code == 400
    assert "which loses digits (read as 9007199254740992): write it as a whole number" in refused.value.read().decode()


def test_a_parameter_that_is_neither_true_nor_false_is_an_error_of_the_client(ask):
    with pytest.raises(InferenceServerException, match=r"raw_tensors.* true or false"):
        ask(raw="yes", ids=IDS)


def test_the_metadata_describe_the_inputs_of_the_model_only_where_they_differ(texts, tmp_path):
    from paddleship.shipped.serving.transports.http.inference import JsonModel

    described = JsonModel(ServedModel(texts)).metadata()["parameters"]["raw_tensors"]
    assert described == [{"name": "ids", "datatype": "INT64", "shape": [-1, -1]}]
    assert "raw_tensors" not in JsonModel(ServedModel(make_tensors(tmp_path))).metadata()["parameters"]


def test_raw_tensors_and_texts_that_wait_share_a_batch_and_each_gets_its_own_answer(texts):
    model = ServedModel(texts)
    model.warm_up()
    requests = [Asked(text=["好差"]), Raw(ids=IDS), Asked(text=["差"])]
    Answering(model, Settings(batching=True)).answer(deque(requests))
    first, raw, last = (request.outcome() for request in requests)
    assert (first["scores"].tolist(), last["scores"].tolist()) == ([[5, 6]], [[3, 6]])
    assert raw.keys() == {"scores"}
    assert raw["scores"].tolist() == [[5, 6], [9, 6]]
    assert {*first} == {*last} == {"scores", "label"}


class Raw(Asked):
    """A request of raw tensors."""

    def decode(self):
        return ModelInputs(super().decode())


def test_ids_whose_range_is_not_known_are_refused(tmp_path):
    model = ServedModel(make_texts(tmp_path))
    with pytest.raises(RequestError, match="no range of 'ids' is known"):
        model.check([], raw_tensors=True)
    assert not model.raw_inputs


def test_pictures_may_be_sent_as_tensors(tmp_path):
    model = ServedModel(make_pictures(tmp_path))
    assert [spec.name for spec in model.raw_inputs] == ["x"]
    pixels = np.random.default_rng(7).random((2, 3, 8, 8), np.float32)
    np.testing.assert_array_equal(model.predict(ModelInputs(x=pixels))["pixels"], pixels)
    with pytest.raises(RequestError, match="finite"):
        model.encode(ModelInputs(x=np.full((1, 3, 8, 8), np.nan, np.float32)))
