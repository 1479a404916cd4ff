"""The core of the server without a transport: its states, its one thread, and why a request gets no answer."""

import math
import subprocess
import sys
import threading
from unittest.mock import Mock

import numpy as np
import pytest

from paddleship.errors import BadInput, RequestError
from paddleship.shipped.serving import errors
from paddleship.shipped.serving.batching import Gone
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, RefusedByModel, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.settings import Settings
from tests.paddleship.shipped.serving.asked import Asked
from tests.paddleship.shipped.serving.candidates import make_tensors


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return make_tensors(tmp_path_factory.mktemp("tensors"))


@pytest.fixture
def started(tensors):
    """Start a service; its model is loaded when `loading` is set."""
    made = []

    def start(load=lambda: ServedModel(tensors), *, loading=None, on_failure=lambda _: None):
        def loaded():
            assert loading is None or loading.wait(300)
            return load()

        service = Service(loaded, Budget(1000))
        made.append(service)
        service.start(on_failure)
        return service

    yield start
    for service in made:
        service.close()


def kind(call):
    with pytest.raises(ServingError) as caught:
        call()
    return caught.value.kind


def test_a_service_answers_when_its_model_is_loaded_and_says_so_until_then(started):
    loading = threading.Event()
    service = started(loading=loading)
    assert service.state is State.LOADING
    assert kind(lambda: service.model("tiny")) is Kind.NOT_READY
    loading.set()
    service.probe().result(20)
    assert service.state is State.READY
    request = Asked(x=np.float32([[3, 4]]))
    service.ask(request)
    assert not service.answer_waiting()
    answer = request.outcome(20)
    assert answer["scores"].tolist() == [[7, -3]]
    assert answer["label"] == ["否"]


def test_another_model_or_version_is_unknown(started):
    service = started()
    service.probe().result(20)
    assert service.model("tiny", service.model("tiny").version)
    assert kind(lambda: service.model("other")) is Kind.UNKNOWN_MODEL
    assert kind(lambda: service.model("tiny", "7")) is Kind.UNKNOWN_MODEL


def test_a_model_that_fails_is_failing_until_it_answers_a_known_batch_again(started):
    service = started()
    service.probe().result(20)
    model = service.model("tiny")
    model.answers = False
    assert service.state is State.FAILING
    service.probe().result(20)
    assert service.state is State.READY


@pytest.mark.parametrize("failure", [BadInput("a file is missing"), RuntimeError("a defect"), SystemExit(3)])
def test_a_model_that_cannot_be_loaded_is_reported(started, failure):
    def load():
        raise failure

    reported = []
    service = started(load, on_failure=reported.append)
    service.probe().result(20)
    assert reported == [service.failure] == [failure]
    assert service.state is State.LOADING


def test_a_slow_model_answers_all_that_waits_on_one_thread_and_nothing_for_who_is_gone(started):
    service, hold = started(), threading.Event()
    service.probe().result(20)
    service._quick_from = math.inf
    first, gone, last = Asked(x=np.float32([[1, 2]]), hold=hold), Asked(x=np.float32([[3, 4]])), Asked(x=np.float32([[5, 6]]))
    service.ask(first)
    service.answer_waiting()
    for request in (gone, last):
        service.ask(request)
        service.answer_waiting()
    gone.gone = True
    hold.set()
    assert first.outcome(20)["scores"].tolist() == [[3, -1]]
    assert last.outcome(20)["scores"].tolist() == [[11, -5]]
    assert first.thread == last.thread != threading.get_ident()
    with pytest.raises(Gone):
        gone.outcome(20)
    assert gone.thread is None


def test_a_quick_model_answers_at_once_until_it_is_slow_and_large_requests_never(started, monkeypatch):
    service = started()
    service.probe().result(20)
    assert service._quick_from == 0
    large, small = Asked(x=np.float32([[1, 2]]), size=2**20), Asked(x=np.float32([[1, 2]]))
    service.ask(large)
    assert not service.answer_waiting()
    assert large.outcome(20)
    assert large.thread != threading.get_ident()
    service.probe().result(20)  # the thread has ended its work
    service.ask(small)
    assert not service.answer_waiting()
    assert small.thread == threading.get_ident()
    monkeypatch.setattr("paddleship.shipped.serving.service._SLOW_S", 0)
    for expected in (True, True, True, False):
        request = Asked(x=np.float32([[1, 2]]))
        service.ask(request)
        service.answer_waiting()
        request.outcome(20)
        assert (request.thread == threading.get_ident()) is expected


def test_what_a_quick_model_is_asked_in_one_turn_is_limited_and_the_rest_waits_for_the_next(started):
    service = started()
    service.probe().result(20)
    requests = [Asked(x=np.float32([[1, number]]), size=2000) for number in range(33)]
    for request in requests:
        service.ask(request)
    assert service.answer_waiting()
    assert [request.thread is not None for request in requests] == [*[True] * 32, False]
    assert not service.answer_waiting()
    assert [request.outcome(1)["scores"].tolist() for request in requests] == [[[1 + number, -1]] for number in range(33)]


def test_a_small_request_does_not_wait_for_all_large_ones_that_came_before_it(started):
    service, hold, order = started(), threading.Event(), []
    service.probe().result(20)
    service._quick_from = math.inf
    rows = np.ones((4096, 2), np.float32)
    large = [Asked(x=rows, size=2**20, hold=hold) for _ in range(5)]
    small = Asked(x=np.float32([[3, 4]]))
    for number, request in enumerate((*large, small)):
        deliver = request.deliver
        request.deliver = lambda outcome, number=number, deliver=deliver: (order.append(number), deliver(outcome))
        service.ask(request)
        service.answer_waiting()
    hold.set()
    assert service.crowded
    for request in (*large, small):
        assert request.outcome(20)
    service.probe().result(20)  # the thread has ended its work
    assert not service.crowded
    assert order.index(5) <= 2


@pytest.mark.parametrize(("batching", "rows"), [(True, 4096), (False, 1)])
def test_a_turn_has_the_rows_of_one_batch(tensors, batching, rows):
    service = Service(lambda: ServedModel(tensors), Budget(1000), Settings(batching=batching))
    service.start(pytest.fail)
    service.probe().result(20)
    service._quick_from = math.inf
    service.queue.take = Mock(wraps=service.queue.take)
    request = Asked(x=np.float32([[3, 4]]))
    service.ask(request)
    service.answer_waiting()
    request.outcome(20)
    service.close()
    service.queue.take.assert_called_once_with(rows=rows)


def test_a_stopped_service_has_finished_what_it_began_and_takes_nothing_more(started):
    service, request = started(), Asked(x=np.float32([[3, 4]]), size=2**20)
    service.probe().result(20)
    service.ask(request)
    service.answer_waiting()
    service.close()
    assert request.outcome(0)["scores"].tolist() == [[7, -3]]
    assert service.state is State.STOPPING
    assert kind(lambda: service.ask(request)) is Kind.STOPPING
    assert kind(service.probe) is Kind.STOPPING


def test_the_budget_refuses_what_exceeds_it_and_counts_unread_answers():
    budget = Budget(100)
    budget.take(60)
    assert kind(lambda: budget.take(41)) is Kind.BUSY
    budget.unread = 40
    assert kind(lambda: budget.take(1)) is Kind.BUSY
    budget.give_back(60)
    budget.take(60)


def test_every_failure_has_a_kind_and_an_unknown_one_is_a_defect():
    assert errors.kind_of(RequestError("no rows")) is Kind.BAD_REQUEST
    assert errors.kind_of(RefusedByModel("too long")) is Kind.REFUSED_BY_MODEL
    assert errors.kind_of(ServingError(Kind.BUSY, "later")) is Kind.BUSY
    assert errors.kind_of(BadInput("a file")) is errors.kind_of(KeyError("x")) is Kind.DEFECT


CORE = """
import sys

for protocol in ("starlette", "uvicorn", "httptools", "http.client", "paddleship.shipped.serving.transports"):
    sys.modules[protocol] = None  # an import of it fails

from pathlib import Path
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service

service = Service(lambda: ServedModel(Path(sys.argv[1])), Budget(10**6))
service.start(print)
service.probe().result()


class Asked:
    size, arrived, deadline = 0, 0, 1e9
    is_gone = staticmethod(lambda: False)
    decode = staticmethod(lambda: {"x": [[3.0, 4.0]]})
    encode = staticmethod(lambda outputs, cuts: outputs["scores"].tolist())
    deliver = staticmethod(print)


service.ask(Asked())
service.answer_waiting()
service.close()
"""


def test_the_core_answers_where_no_transport_can_be_imported(tensors):
    done = subprocess.run([sys.executable, "-c", CORE, str(tensors)], capture_output=True, text=True, encoding="utf-8", check=False)
    assert (done.stdout, done.returncode) == ("[[7.0, -3.0]]\n", 0), done.stderr
