import ctypes
import os
import time

import pytest

from paddleship import isolate
from paddleship.errors import CandidateError, ModelError


class Subject:
    def echo(self, value):
        return value

    def die(self):
        ctypes.string_at(0)

    def leave(self):
        os._exit(3)

    def hang(self):
        time.sleep(60)

    def fail(self):
        raise ValueError("seven")

    def misuse(self):
        raise ModelError("your model")

    def variable(self, name):
        return os.environ[name]


@pytest.fixture
def child():
    with isolate.Isolated("subject", Subject, timeout_s=20) as made:
        yield made


def test_methods_run_in_another_process(child):
    assert child.call("echo", [1, "two"]) == [1, "two"]
    assert child.pid != os.getpid()


@pytest.mark.parametrize(
    ("method", "words"),
    [("die", "subject died of SIGSEGV"), ("leave", "exited with 3"), ("fail", "ValueError: seven")],
)
def test_an_end_of_the_child_is_an_error_with_its_cause(child, method, words):
    with pytest.raises(CandidateError, match=words):
        child.call(method)


def test_our_own_errors_keep_their_type(child):
    with pytest.raises(ModelError, match="your model"):
        child.call("misuse")


def test_a_hang_is_an_error_and_the_child_is_gone():
    with isolate.Isolated("subject", Subject, timeout_s=1) as child:
        with pytest.raises(CandidateError, match="did not answer in 1 s"):
            child.call("hang")
        pid = child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_failing_constructor_is_an_error():
    with pytest.raises(CandidateError, match="ZeroDivisionError"):
        isolate.run("division", divmod, 1, 0, timeout_s=20)


def test_a_function_gives_its_result_and_sees_its_environment():
    assert isolate.run("division", divmod, 7, 2, timeout_s=20) == (3, 1)
    with isolate.Isolated("subject", Subject, timeout_s=20, environment=isolate.threads(3)) as child:
        assert child.call("variable", "OMP_NUM_THREADS") == "3"
