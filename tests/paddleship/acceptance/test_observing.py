"""What accept asks and judges, against real servers: a right one passes, and each kind of wrong one fails by its own check."""

import asyncio
import math
import pickle
import threading
import time
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from paddleship.acceptance import hostile, judging, observing
from paddleship.acceptance.datatypes import datatype
from paddleship.acceptance.observing import observe
from paddleship.acceptance.transport import Malformed, Outcome, Reply
from paddleship.acceptance.transports import server_at
from paddleship.config.sections.verify import Verify
from paddleship.errors import RequestError
from paddleship.proof.cases.inputs import Case
from paddleship.proof.evidence import gather
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.datatypes import DATATYPES, shape
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.settings import Settings
from paddleship.shipped.serving.transports.http.app import App
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.server import make_server

CLASSES = ("no", "maybe", "yes")
MAX_BATCH = 24
WEIGHTS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
ROWS = np.random.default_rng(2).normal(size=(60, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def candidate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidate")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"])]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [5, 3], WEIGHTS.ravel())]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph(nodes, "model", [x], [scores], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    Candidate(
        name="onnxruntime",
        model="tiny",
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=(TensorSpec("x", "float32", ("batch", 5)),),
        outputs=(TensorSpec("scores", "float32", ("batch", 3)),),
        sources={"scores": 0},
        classes=CLASSES,
        preprocess={"kind": "tensors"},
        max_batch=MAX_BATCH + 1,
        task="classification",
        weights_sha256="0" * 64,
        warm_shapes=({"x": [2, 5]},),
    ).save(folder)
    return folder


@pytest.fixture(scope="module")
def evidence():
    batches = [(0,), (5,), *(tuple(range(size)) for size in range(2, MAX_BATCH + 1)), tuple(range(40, 60))]
    cases = [Case(f"batch of {len(rows)}", "rows", {"x": ROWS[[*rows]]}, rows) for rows in batches]
    truth = [{"scores": case.inputs["x"].astype(np.float64) @ WEIGHTS.astype(np.float64)} for case in cases]
    return gather(cases, [{"scores": one["scores"].astype(np.float32)} for one in truth], truth, task="classification")


@contextmanager
def served(folder, kind=ServedModel, max_batch=MAX_BATCH):
    service, failures = Service(lambda: kind(folder, max_batch=max_batch), Budget(2**26), Settings(batching=True, padding=True)), []
    guard = Guard(ConnectionLimits(), service.budget)
    app = App(service, guard, on_failure=failures.append)

    async def counted(scope, receive, send):
        kind.waiting += 1
        try:
            await app(scope, receive, send)
        finally:
            kind.waiting -= 1

    kind.waiting = 0
    server = make_server(counted, guard, host="127.0.0.1", port=0)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    asked = server_at("127.0.0.1", server.servers[0].sockets[0].getsockname()[1], model="tiny", timeout_s=60)
    try:
        with closing(asked.connect()) as client:
            while client.ready().outcome is not Outcome.ANSWERED:
                assert not failures
        yield asked
    finally:
        server.should_exit = True
        thread.join()
    assert not failures


def failed(folder, evidence, kind=ServedModel, *, classes=CLASSES, max_batch=MAX_BATCH, precision="float32"):
    """Names of the checks that fail for a server of this kind."""
    with served(folder, kind, max_batch) as server:
        batches = [{"x": [ROWS[row] for row in case.rows]} for case in evidence.cases]
        observed = observe(server, batches=batches, pads={}, requests=40, concurrency=8)
    checks, _ = judging.checks(observed, evidence, judging.ServedCandidate(precision, classes, "classification"), Verify())
    return {check.name: str(check) for check in checks if not check.passed}


class Wrong(ServedModel):
    """A server whose answer to a request may be spoiled."""

    def finish(self, columns, examples, outputs):
        return self.spoil(dict(super().finish(columns, examples, outputs)), len(examples))


class WrongAtTwenty(Wrong):
    def spoil(self, outputs, size):
        return outputs | ({"scores": outputs["scores"] * np.float32(1.001)} if size == 20 else {})


class Reversed(Wrong):
    def spoil(self, outputs, size):
        return outputs | {"label": [CLASSES[2 - CLASSES.index(label)] for label in outputs["label"]]}


class WithoutLabels(Wrong):
    def spoil(self, outputs, size):
        return {"scores": outputs["scores"]}


class SilentAtTwenty(Wrong):
    def spoil(self, outputs, size):
        if size == 20:
            raise RuntimeError("no answer to twenty rows")
        return outputs


class NeighbourWhenCrowded(Wrong):
    """Answers a large batch with its rows moved by one while others wait for theirs."""

    def spoil(self, outputs, size):
        return outputs | ({"scores": np.roll(outputs["scores"], 1, axis=0)} if size > 16 and self.waiting > 1 else {})


class NeighbourWhenBatched(ServedModel):
    """Moves the rows of requests that share a batch by one."""

    def run(self, batch, *, alone=True):
        outputs = super().run(batch, alone=alone)
        return outputs if alone else {name: np.roll(array, 1, axis=0) for name, array in outputs.items()}


class WrongAfterMany(Wrong):
    asked = 0

    def spoil(self, outputs, size):
        type(self).asked += 1
        return outputs | ({"scores": outputs["scores"] + 1} if type(self).asked > 60 else {})


class Crashing(ServedModel):
    def check(self, tensors, **more):
        try:
            return super().check(tensors, **more)
        except RequestError as error:
            raise RuntimeError("not caught") from error


class Lenient(ServedModel):
    """Answers any tensors with what it was asked last that fits."""

    def check(self, tensors, **more):
        with suppress(RequestError):
            self.last = super().check(tensors, **more)
        return self.last


class Fragile(ServedModel):
    """Answers nothing any more after the first bad request."""

    broken = False

    def check(self, tensors, **more):
        if type(self).broken:
            raise RequestError("no more")
        try:
            return super().check(tensors, **more)
        except RequestError:
            type(self).broken = True
            raise


@dataclass
class Call:
    """A tensor of a call that carries Python's own objects."""

    name: str
    datatype: str
    column: object

    def decode(self):
        return self.column


class DirectRequest:
    """One call of the core."""

    def __init__(self, model, content):
        self.model, self.content, self.size, self.answer = model, content, len(content), Future()
        self.arrived, self.deadline = time.perf_counter(), math.inf

    def is_gone(self):
        return False

    def decode(self):
        if not self.content:
            raise RequestError("no calls")
        return self.model.check([Call(*one) for one in pickle.loads(self.content)])  # noqa: S301 this process wrote it

    def encode(self, outputs, cuts):
        return pickle.dumps(outputs)

    def deliver(self, outcome):
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class Direct:
    """A transport without a network: calls of the core, whose bytes are Python's own. It is a server and its only connection."""

    transport, REFUSED, BROKEN = "direct", 1, 2
    refusals = (REFUSED,)

    def __init__(self, service):
        self.service = service

    def connect(self, *, timeout_s=None):
        return self

    def close(self):
        pass

    def encode(self, tensors):
        return pickle.dumps([(name, datatype(array), array) for name, array in tensors.items()])

    def decode(self, answer):
        outputs = pickle.loads(answer)  # noqa: S301 this process wrote it
        return {name: np.array(values, object if name == "label" else np.float32) for name, values in outputs.items()}

    def encode_plain(self, request):
        arrays = {one["name"]: np.array(one["data"], np.float32).reshape(one["shape"]) for one in request["inputs"]}
        return self.encode(arrays)

    def decode_plain(self, answer):
        outputs = self.decode(answer)
        return {"outputs": [{"name": name, "datatype": datatype(array), "data": array.tolist()} for name, array in outputs.items()]}

    def malformed(self, good, too_many, missing):
        yield Malformed("one row more than the largest batch", too_many, (self.REFUSED,))
        yield Malformed("no tensors", pickle.dumps([]), (self.REFUSED,))
        yield Malformed("no calls", b"", (self.REFUSED,))

    def other_forms(self, tensors, metadata):
        return iter(())

    @contextmanager
    def unfinished(self):
        yield

    def ready(self):
        return Reply(Outcome.ANSWERED if self.service.state is State.READY else Outcome.FAILED, 0, b"")

    def metadata(self):
        model = self.service.model("tiny")
        inputs = [{"name": spec.name, "datatype": DATATYPES[spec.dtype], "shape": shape(spec)} for spec in model.requests]
        return {"inputs": inputs, "parameters": {"candidate_digest": model.candidate.digest, "max_batch": model.limits.max_batch}}

    def ask(self, tensors):
        return self.decode(self.send(self.encode(tensors)).payload)

    def send(self, request):
        asked = DirectRequest(self.service.model("tiny"), request)
        self.service.ask(asked)
        while self.service.answer_waiting():
            pass
        try:
            return Reply(Outcome.ANSWERED, 0, asked.answer.result(60))
        except RequestError as error:
            return Reply(Outcome.FAILED, self.REFUSED, str(error).encode())
        except Exception as error:
            return Reply(Outcome.FAILED, self.BROKEN, repr(error).encode())

    def provoke(self, request):
        return self.send(request.body)


@pytest.mark.parametrize(("kind", "failed"), [(ServedModel, set()), (Crashing, {"hostile_requests"}), (Reversed, {"labels"})])
def test_a_server_of_another_transport_is_asked_and_judged_alike(candidate, evidence, kind, failed):
    service = Service(lambda: kind(candidate, max_batch=MAX_BATCH), Budget(2**26))
    service.start(pytest.fail)
    service.probe().result(60)
    batches = [{"x": ROWS[[*case.rows]].tolist()} for case in evidence.cases]
    observed = observe(Direct(service), batches=batches, pads={}, requests=40, concurrency=8)
    service.close()
    checks, judgement = judging.checks(observed, evidence, judging.ServedCandidate("float32", CLASSES, "classification"), Verify())
    assert {check.name for check in checks if not check.passed} == failed, [str(check) for check in checks]
    assert "direct_noise_ratio" in judging.metrics(judgement, observed.transport)


@pytest.fixture
def impatient(monkeypatch):
    """A server that does not recover is given up soon."""
    monkeypatch.setattr(hostile, "_PATIENCE_S", 2)


def test_a_right_server_passes_every_check_and_the_example_is_one_row_that_it_answered(candidate, evidence):
    with served(candidate) as server:
        batches = [{"x": ROWS[[*case.rows]].tolist()} for case in evidence.cases]
        first = []
        observed = observe(server, batches=batches, pads={}, requests=40, concurrency=8, on_first_answer=lambda: first.append(1))
    checks, judgement = judging.checks(observed, evidence, judging.ServedCandidate("float32", CLASSES, "classification"), Verify())
    assert all(check.passed for check in checks), [str(check) for check in checks if not check.passed]
    assert {check.name for check in checks} >= {"labels", "hostile_requests", "max_batch", "noise_ratio", "concurrent_batches"}
    assert judgement.metrics["noise_ratio"] <= 8
    assert first == [1]
    (given,) = observed.example["request"]["inputs"]
    assert given["shape"] == [1, 5]
    assert np.array_equal(np.float32(given["data"]), ROWS[0])
    assert observed.example["answer"]["outputs"][1]["data"] == [CLASSES[int((ROWS[0] @ WEIGHTS).argmax())]]
    assert len(observed.concurrent_load.samples_ms) > 20
    assert {len(evidence.cases[place].rows) for place in observed.concurrent_answers} >= {1, 2, MAX_BATCH}


@pytest.mark.parametrize(
    ("kind", "names", "words"),
    [
        (WrongAtTwenty, {"noise_ratio", "concurrent_noise_ratio"}, ""),
        (Reversed, {"labels"}, ", row "),
        (WithoutLabels, {"labels"}, "no label"),
        (SilentAtTwenty, {"unanswered_batches", "failed_requests"}, "500"),
        (Crashing, {"hostile_requests"}, "one row more than the largest batch: 500"),
        (Lenient, {"hostile_requests"}, "one row more than the largest batch: 200"),
        (Fragile, {"hostile_requests"}, "after the bad requests"),
    ],
)
def test_a_wrong_server_is_refused_by_the_check_that_is_meant_for_it(candidate, evidence, kind, names, words, impatient):
    faults = failed(candidate, evidence, kind)
    assert names & faults.keys()
    assert faults.keys() <= names | {"typical_ratio", "concurrent_typical_ratio"}
    assert any(words in fault for fault in faults.values()), faults


@pytest.mark.parametrize("kind", [NeighbourWhenCrowded, NeighbourWhenBatched, WrongAfterMany])
def test_a_server_that_is_wrong_only_when_many_ask_is_refused(candidate, evidence, kind, impatient):
    faults = failed(candidate, evidence, kind)
    assert any(name.startswith("concurrent_") for name in faults)
    assert "hostile_requests" not in faults or kind is WrongAfterMany


def test_a_server_that_takes_more_than_was_proven_is_refused(candidate, evidence):
    assert failed(candidate, evidence, max_batch=MAX_BATCH + 1).keys() == {"max_batch"}


def test_the_worst_answer_of_a_wrong_server_is_named_with_batch_row_value_and_expected_value(candidate, evidence):
    class WrongRow(Wrong):
        def spoil(self, outputs, size):
            changed = outputs["scores"].copy()
            changed[min(3, size - 1), 1] += 1000 * (size == 20)
            return outputs | {"scores": changed}

    faults = failed(candidate, evidence, WrongRow)
    row = next(case.rows[3] for case in evidence.cases if len(case.rows) == 20)
    expected = float((ROWS[row] @ WEIGHTS)[1])
    assert "the server answered one caller differently from eager in a batch of 20 (batch of 20)" in faults["noise_ratio"]
    assert f"scores[1] in row 3 (test row {row}) is {expected + 1000:.4g}"[:-1] in faults["noise_ratio"]
    assert f"expected {expected:.4g}"[:-1] in faults["noise_ratio"]
    assert "the candidate was proven on this batch, so the image or its server changes the answer" in faults["noise_ratio"]
    assert "see the findings" not in " ".join(faults.values())


def test_batches_that_take_too_long_together_are_left_out_and_the_rest_is_judged(candidate, evidence, monkeypatch):
    monkeypatch.setattr(observing, "_ALL_BYTES", 8000)
    with served(candidate) as server:
        batches = [{"x": ROWS[[*case.rows]].tolist()} for case in evidence.cases]
        observed = observing.observe(server, batches=batches, pads={}, requests=40, concurrency=8)
    sizes = {len(evidence.cases[place].rows) for place in observed.asked}
    assert {1, MAX_BATCH} <= sizes
    assert len(observed.answers) == len(observed.asked) < len(evidence.cases)
    checks, judgement = judging.checks(observed, evidence, judging.ServedCandidate("float32", CLASSES, "classification"), Verify())
    assert judgement is not None
    assert all(check.passed for check in checks), [str(check) for check in checks if not check.passed]


def test_labels_are_those_that_the_data_declares_and_not_those_of_the_candidate(candidate, evidence):
    faults = failed(candidate, evidence, classes=CLASSES[::-1])
    assert faults.keys() == {"labels"}


def test_a_tie_within_eagers_noise_may_fall_either_way_and_no_other(evidence):
    def faults(eager, scores, label, precision="float32"):
        case = Case("row", "rows", {"x": ROWS[:1]}, (0,))
        reference = {"scores": np.float32([eager])}
        made = gather([case], [reference], [{"scores": np.float64([eager])}])
        answer = {"scores": np.float32([scores]), "label": np.array([label], dtype=object)}
        return judging.label_faults([answer], made, judging.ServedCandidate(precision, CLASSES, "classification"), Verify())

    assert not faults([1, 1.000001, 0], [1.000001, 1, 0], "no")
    assert faults([1, 1.000001, 0], [1, 1.000001, 0], "no"), "the label must be that of the scores beside it"
    assert faults([1, 1.01, 0], [1.01, 1, 0], "no")
    assert not faults([1, 1.01, 0], [1.01, 1, 0], "no", precision="int8"), "flip_rate judges these"
    assert faults([1, 1.01, 0], [1, 1.01, 0], "no", precision="int8")
