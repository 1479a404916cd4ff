"""The core of the server without a transport: its states, its one thread, and why a request gets no answer."""

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from paddleship.errors import BadInput, RequestError
from paddleship.shipped.serving import errors
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, RefusedByModel, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.service import Service, State
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
            assert loading is None or loading.wait(20)
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
    service.submit(lambda: None).result(20)
    assert service.state is State.READY
    model = service.model("tiny")
    answer = service.submit(lambda: model.predict({"x": np.float32([[3, 4]])})).result(20)
    assert answer["scores"].tolist() == [[7, -3]]
    assert answer["label"] == ["否"]


def test_another_model_or_version_is_unknown(started):
    service = started()
    service.submit(lambda: None).result(20)
    assert service.model("tiny", service.model("tiny").version)
    assert kind(lambda: service.model("other")) is Kind.UNKNOWN_MODEL
    assert kind(lambda: service.model("tiny", "7")) is Kind.UNKNOWN_MODEL


def test_a_model_that_fails_is_failing_until_it_answers_a_known_batch_again(started):
    service = started()
    service.submit(lambda: None).result(20)
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
    service.submit(lambda: None).result(20)
    assert reported == [service.failure] == [failure]
    assert service.state is State.LOADING


def test_work_of_all_callers_runs_on_one_thread_and_not_at_all_once_it_was_cancelled(started):
    service, hold, ran = started(), threading.Event(), []
    first = service.submit(lambda: hold.wait(20) and threading.get_ident())
    cancelled, last = service.submit(lambda: ran.append(1)), service.submit(threading.get_ident)
    assert cancelled.cancel()
    hold.set()
    assert first.result(20) == last.result(20) != threading.get_ident()
    with pytest.raises(CancelledError):
        cancelled.result(20)
    assert not ran


def test_a_stopped_service_has_finished_what_it_began_and_takes_nothing_more(started):
    service, ran = started(), []
    service.submit(lambda: ran.append(1))
    service.close()
    assert ran == [1]
    assert service.state is State.STOPPING
    assert kind(lambda: service.submit(lambda: None)) is Kind.STOPPING


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
service.submit(lambda: None).result()
print(service.submit(lambda: service.model("tiny").predict({"x": [[3.0, 4.0]]})["scores"].tolist()).result())
service.close()
"""


def test_the_core_answers_where_no_transport_can_be_imported(tensors):
    done = subprocess.run([sys.executable, "-c", CORE, str(tensors)], capture_output=True, text=True, encoding="utf-8", check=False)
    assert (done.stdout, done.returncode) == ("[[7.0, -3.0]]\n", 0), done.stderr
