import ctypes
import importlib
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import psutil
import pytest

from paddleship.errors import CandidateError, Defect, ModelError, PaddleshipError, ProcessDied, ProcessHung, Unavailable
from paddleship.numerics import differences
from paddleship.system import isolate
from paddleship.system.defects import is_ours


class Subject:
    def echo(self, value):
        return value

    def die(self):
        ctypes.string_at(0)

    def leave(self):
        os._exit(3)

    def hang(self):
        time.sleep(60)

    def hang_in_c(self):
        ctypes.PyDLL(None).sleep(60)  # and lets no other thread of Python run

    def fail(self):
        raise ValueError("seven")

    def fail_at_length(self, said):
        raise ValueError(said)

    def misuse(self):
        raise ModelError("your model", where="model.py:3")

    def fill(self):
        Path("/dev/full").write_text("seven")

    def fill_and_blame_the_model(self):
        try:
            self.fill()
        except OSError as failure:
            raise ModelError(f"the model does not convert ({failure})") from None

    def variable(self, name):
        return os.environ[name]


@pytest.fixture
def child():
    with isolate.Isolated("subject", Subject, timeout_s=20) as made:
        yield made


def test_a_child_that_hung_is_asked_nothing_more_so_that_no_late_answer_is_taken_for_another():
    with isolate.Isolated("subject", Subject, timeout_s=5) as child:
        child._timeout_s = 0.2
        with pytest.raises(ProcessHung):
            child.call("hang")
        with pytest.raises(ProcessDied, match=r"\(echo\)"):
            child.call("echo", 1)


def test_methods_run_in_another_process(child):
    assert child.call("echo", [1, "two"]) == [1, "two"]
    assert child.pid != os.getpid()


@pytest.mark.parametrize(
    ("method", "words"),
    [("die", "subject died of SIGSEGV"), ("leave", "exited with 3")],
)
def test_an_end_of_the_child_is_an_error_with_its_cause(child, method, words):
    with pytest.raises(ProcessDied, match=words) as raised:
        child.call(method)
    assert raised.value.signal == ("SIGSEGV" if method == "die" else None)


@pytest.mark.parametrize("method", ["fill", "fill_and_blame_the_model"])
def test_a_full_disk_is_no_fault_of_the_model(child, method):
    with pytest.raises(Unavailable, match=r"subject cannot use .*No space left on device"):
        child.call(method)
    assert child.call("echo", 1) == 1


def test_an_error_of_the_users_code_stays_theirs_and_names_their_line(child):
    with pytest.raises(CandidateError, match="ValueError: seven") as raised:
        child.call("fail")
    line = 1 + Path(__file__).read_text().splitlines().index('        raise ValueError("seven")')
    assert raised.value.where == f"{__file__}:{line}"
    assert not isinstance(raised.value, ProcessDied)


def test_a_mistake_of_ours_comes_back_as_a_defect_with_the_childs_traceback():
    with pytest.raises(Defect, match="the comparison: AttributeError") as raised:
        isolate.run("the comparison", differences.elementwise_distance, None, None, timeout_s=20)
    assert "paddleship/numerics/differences.py" in raised.value.trace
    assert "in elementwise_distance" in raised.value.trace
    assert not isinstance(raised.value, PaddleshipError)


def test_a_mistake_of_ours_is_told_from_the_answer_of_a_library():
    with pytest.raises(CandidateError, match="Error"):  # raised inside another library, which was given a broken file
        isolate.run("the library", importlib.import_module, "yaml.nothing_of_that_name", timeout_s=20)
    assert not is_ours(
        as_raised(differences.elementwise_distance, ValueError("(InvalidArgument) The shape of X is wrong. [Hint: expected 2]"))
    )
    assert is_ours(as_raised(differences.elementwise_distance, ValueError("shapes differ")))


class Raises:
    """Stands in for an array, and raises where our code looks at it."""

    def __init__(self, error):
        self.error = error

    @property
    def shape(self):
        raise self.error


def as_raised(function, error):
    """The exception as it is where compiled code raised it: without a frame of the code that did."""
    try:
        function(Raises(error), None)
    except Exception as raised:
        trace = raised.__traceback__.tb_next  # without this file's frames, before and behind ours
        return raised.with_traceback(types.TracebackType(None, trace.tb_frame, trace.tb_lasti, trace.tb_lineno))


def test_an_error_of_ours_keeps_the_users_line_on_its_way(child):
    with pytest.raises(ModelError) as raised:
        child.call("misuse")
    assert raised.value.where == "model.py:3"


def test_our_own_errors_keep_their_type(child):
    with pytest.raises(ModelError, match="your model"):
        child.call("misuse")


def test_a_hang_is_an_error_and_the_child_is_gone():
    with isolate.Isolated("subject", Subject, timeout_s=20) as child:
        child._timeout_s = 1
        with pytest.raises(ProcessHung, match="did not answer in 1 s") as raised:
            child.call("hang")
        assert raised.value.seconds == 1
        pid = child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_failing_constructor_is_an_error():
    with pytest.raises(Defect, match="division: ZeroDivisionError"):
        isolate.run("division", divmod, 1, 0, timeout_s=20)


def test_a_function_gives_its_result_and_sees_its_environment():
    assert isolate.run("division", divmod, 7, 2, timeout_s=20) == (3, 1)
    with isolate.Isolated("subject", Subject, timeout_s=20, environment=isolate.threads(3)) as child:
        assert child.call("variable", "OMP_NUM_THREADS") == "3"


class Parent:
    """Starts a process of its own, which outlives it if nobody ends it."""

    def start(self):
        self.started = os.fork()
        if self.started == 0:
            time.sleep(20)
            os._exit(0)
        return self.started

    def leave(self):
        self.start()
        os._exit(3)

    def talk(self):
        for _ in range(30):
            os.write(1, b"x" * 1_000_000)
            time.sleep(0.05)


ABANDONED = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from paddleship.system.isolate import Isolated
from tests.paddleship.system.test_isolate import Subject

if __name__ == "__main__":
    child = Isolated("x", Subject, timeout_s=30)
    print(child.pid, flush=True)
    threading.Timer(0.5, os.kill, (os.getpid(), 9)).start()
    child.call("hang_in_c")
"""


def test_a_child_that_hangs_in_c_does_not_outlive_its_parent(tmp_path, request):
    (tmp_path / "abandoned.py").write_text(ABANDONED.format(root=str(request.config.rootpath)))
    with subprocess.Popen([sys.executable, "abandoned.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        assert parent.wait(300) == -9
        _, alive = psutil.wait_procs([child], timeout=10)
        for process in alive:
            process.kill()
    assert not alive


PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
sys.path[:0] = [{root!r}]
from paddleship.system import isolate

print("the program", flush=True)
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda count: isolate.run("child", divmod, 7, count, timeout_s=60), (1, 2, 3, 4)))
print(found, sys.modules["__main__"].found is found)
"""


def test_a_child_does_not_import_the_program_that_starts_it(tmp_path, request):
    (tmp_path / "program.py").write_text(PROGRAM.format(root=str(request.config.rootpath)))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["the program", "[(7, 0), (3, 1), (2, 1), (1, 3)] True"]


def test_what_a_child_started_ends_with_it():
    with isolate.Isolated("parent", Parent, timeout_s=20) as child:
        started = psutil.Process(child.call("start"))
    assert not psutil.wait_procs([started], timeout=10)[1]


def test_the_end_of_a_child_is_seen_where_what_it_started_holds_the_pipe():
    with isolate.Isolated("parent", Parent, timeout_s=30) as child, pytest.raises(CandidateError, match="exited with 3"):
        child.call("leave")


def test_what_a_child_prints_does_not_fill_the_disk(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with isolate.Isolated("parent", Parent, timeout_s=30) as child:
        child.call("talk")
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 25_000_000


class WithPaddle:
    def __init__(self):
        import paddle  # noqa: F401 it catches fatal signals from then on

    def abort(self):
        os.abort()


def test_a_crash_ends_the_child_at_once_and_has_its_line_although_paddle_would_catch_it():
    with isolate.Isolated("with Paddle", WithPaddle, timeout_s=60) as child, pytest.raises(ProcessDied, match="died of SIGABRT") as raised:
        child.call("abort")
    assert raised.value.where is not None


def test_paddle_catches_a_crash_without_its_line_where_its_handlers_stay():
    with pytest.raises(ProcessDied) as raised:
        isolate.run("paddle alone", _aborts, timeout_s=60)
    assert raised.value.where is None


def _aborts():
    WithPaddle().abort()


@pytest.mark.parametrize("before", ["", "C++ Traceback\n0  paddle::run()\n----\nError Message Summary:\n----\n"])
def test_a_long_error_keeps_its_first_sentence(before):
    with isolate.Isolated("subject", Subject, timeout_s=30) as child, pytest.raises(CandidateError) as raised:
        child.call("fail_at_length", f"{before}The shapes differ.\n  [Hint: {'x ' * 1000}] (at last)")
    assert str(raised.value).startswith("ValueError: The shapes differ. [Hint: x x")
    assert str(raised.value).endswith("(at last)")
