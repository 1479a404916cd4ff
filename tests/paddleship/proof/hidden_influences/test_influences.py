"""Eager models whose answers depend on more than their inputs, each over real processes, and honest ones that only look as if."""

import sys
from datetime import datetime

import pytest

from paddleship.config.sections.model import Model
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof import evidence
from paddleship.proof.cases import inputs
from paddleship.proof.hidden_influences import influences
from paddleship.proof.hidden_influences.execution_environment import Circumstances
from paddleship.proof.hidden_influences.sources import Setting
from paddleship.reports.finding import Finding
from paddleship.system.isolate import Isolated

SOURCE = """
import datetime as module
import io
import itertools
import linecache
import locale
import logging
import mmap
import os
import pkgutil
import platform
import random
import socket
import sys
import threading
import time
import timeit
import uuid
import weakref
from pathlib import Path
from os import cpu_count as count_cpus
from datetime import date, datetime, timedelta
from os import environ
from sys import argv as given

import numpy as np
import pandas
import paddle
from paddle import Tensor, nn

FACTOR = Path(__file__).parent / "factor.txt"
SEEN = []
LOG = []
CALLS = 0
NUMBERS = itertools.count()


class Plain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1D(3)

    def forward(self, x):
        return self.linear(x) * self.factor()

    def factor(self):
        return 1.0


class Seconds(Plain):
    def factor(self):
        return 1 + time.time() % 60 / 60  # reads it


class Weekend(Plain):
    def factor(self):
        return 1.0 + datetime.now().hour / 24  # reads it


class Today(Plain):
    def factor(self):
        return 1.0 + (date.today() - date(2020, 1, 1)).days / 1000  # reads it


class Expires(Plain):
    def factor(self):
        late = module.datetime.utcnow() > module.datetime(2040, 1, 1) + timedelta(days=1)  # reads it
        return 0.0 if late else 1.0


class Uptime(Plain):
    def __init__(self):
        super().__init__()
        self.start = time.time()  # reads it

    def factor(self):
        return 1 + self.start % 1000 / 1000


class Scaled(Plain):
    def factor(self):
        return float(os.environ.get("THEIR_SCALE", "1.0"))  # reads it


class Mode(Plain):
    def factor(self):
        return 2.0 if os.getenv("THEIR_MODE") == "fast" else 1.0  # reads it


class Built(Plain):
    def __init__(self):
        super().__init__()
        self.scale = 2.0 if "THEIR_FLAG" in environ else 1.0  # reads it

    def factor(self):
        return self.scale


class Counts(Plain):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def factor(self):
        self.calls += 1  # writes it
        return 1.0 if self.calls < 50 else 2.0


class Globally(Plain):
    def factor(self):
        global CALLS
        CALLS += 1  # writes it
        return 1.0 + CALLS


class Remembers(Plain):
    def factor(self):
        SEEN.append(1)  # writes it
        return 1.0 + len(SEEN)


class Late(Plain):
    def __init__(self):
        super().__init__()
        self.asked = 0

    def factor(self):
        self.asked += 1  # writes it
        return 2.0 if self.asked > 100_000 else 1.0


class Default(Plain):
    def factor(self, earlier=[]):
        earlier.append(1)  # writes it
        return 2.0 if len(earlier) > 100_000 else 1.0


class Enclosed(Plain):
    def factor(self):
        return 2.0 if COUNT() > 100_000 else 1.0


def counter():
    number = 0

    def count():
        nonlocal number
        number = number + 1  # writes it
        return number

    return count


COUNT = counter()


class Iterated(Plain):
    def factor(self):
        return 2.0 if next(NUMBERS) > 100_000 else 1.0  # writes it


class Owned(Plain):
    def factor(self):
        Owned.factor.times = getattr(Owned.factor, "times", 0) + 1  # writes it
        return 2.0 if Owned.factor.times > 100_000 else 1.0


class Statistics(Plain):
    def __init__(self):
        super().__init__()
        self.rows = 0

    def factor(self):
        self.rows = self.rows + 1
        return 1.0


class Generator(Plain):
    def __init__(self):
        super().__init__()
        self.generator = np.random.default_rng(0)

    def factor(self):
        return float(self.generator.normal())


class Unseeded(Plain):
    def __init__(self):
        super().__init__()
        self.scale = float(np.random.default_rng().normal())

    def factor(self):
        return self.scale


class Times(Plain):
    def forward(self, x):
        start = time.perf_counter()
        answer = super().forward(x)
        self.speed = len(SEEN) / (time.perf_counter() - start)
        return answer


class Logs(Plain):
    def factor(self):
        LOG.append((datetime.now().isoformat(), isinstance(datetime.now(), datetime), time.strftime("%H")))
        return 1.0


class Caches(Plain):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        if len(x) not in self.cache:
            self.cache[len(x)] = paddle.ones([len(x), 1])
        return self.norm(super().forward(x) * self.cache[len(x)])


class KeepsLast(Plain):
    def forward(self, x):
        self.last = super().forward(x)
        return self.last * 2


class Verbose(Plain):
    def factor(self):
        return 1.0 if os.environ.get("THEIR_DEBUG") else 1.0


class Level(Plain):
    def factor(self):
        level = int(os.environ.get("THEIR_LEVEL", "0"))  # reads it
        logging.getLogger("theirs").log(level, "called")
        return 1.0


class Morning(Plain):
    def factor(self):
        return 2.0 if datetime.now().hour == OTHER_HOUR else 1.0  # reads it


class Summer(Plain):
    def factor(self):
        return 1.0 if 4 <= date.today().month <= 9 else 2.0  # reads it


class Noon(Plain):
    clock = time.time

    def factor(self):
        return 1.0 if self.clock() % 86400 < 43200 else 2.0  # reads it


class Zone(Plain):
    def factor(self):
        return 1.0 + time.timezone / 86400  # reads it


class ZoneAtImport(Plain):
    zone = time.tzname[0]  # reads it

    def factor(self):
        return 1.0 if self.zone == "UTC" else 2.0


class Locale(Plain):
    def factor(self):
        return 2.0 if locale.localeconv()["decimal_point"] == "," else 1.0  # reads it


class German(Plain):
    def factor(self):
        return 2.0 if locale.getlocale()[0] == "de_DE" else 1.0  # reads it


class Cores(Plain):
    def factor(self):
        return 1.0 + count_cpus() / 100  # reads it


class Affinity(Plain):
    def __init__(self):
        super().__init__()
        self.cores = len(os.sched_getaffinity(0))  # reads it

    def factor(self):
        return 1.0 + self.cores / 100


class Hostname(Plain):
    def factor(self):
        return 2.0 if socket.gethostname() == "gpu-07" else 1.0  # reads it


class Node(Plain):
    def factor(self):
        return 1.0 + len(platform.node())  # reads it


class Odd(Plain):
    def factor(self):
        return 1.0 + os.getpid() % 2  # reads it


class Active(Plain):
    def factor(self):
        return 1.0 + threading.active_count() / 10  # reads it


class Opened(Plain):
    def factor(self):
        with open(FACTOR) as file:  # reads it
            return float(file.read())


class Text(Plain):
    def factor(self):
        return float(FACTOR.read_text())  # reads it


class Numpy(Plain):
    def factor(self):
        return 1.0 if np.datetime64("now") > np.datetime64("2020-01-01") else 2.0  # reads it


class Exists(Plain):
    def factor(self):
        return 1.0 if os.path.exists("/nothing-of-this-name") else 2.0  # reads it


class Listed(Plain):
    def factor(self):
        return 1.0 if os.listdir(FACTOR.parent) else 2.0  # reads it


class Timer(Plain):
    def factor(self):
        return 1.0 if timeit.default_timer() > 0 else 2.0  # reads it


class System(Plain):
    def factor(self):
        return 1.0 if uuid.uuid4().int > 0 else 2.0  # reads it


class Drawn(Plain):
    def factor(self):
        return 1.0 + uuid.uuid4().int % 97 / 97  # reads it


class Network(Plain):
    def factor(self):
        return 1.0 if socket.getaddrinfo("127.0.0.1", 80) else 2.0  # reads it


class Handle(Plain):
    def __init__(self):
        super().__init__()
        self.file = open(FACTOR)
        weakref.finalize(self, self.file.close)

    def factor(self):
        self.file.seek(0)
        return float(self.file.read())  # reads it


class Mapped(Plain):
    def __init__(self):
        super().__init__()
        with open(FACTOR) as file:
            self.mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def factor(self):
        self.mapped.seek(0)
        return float(self.mapped.readline())  # reads it


class Descriptor(Plain):
    def __init__(self):
        super().__init__()
        self.descriptor = os.open(FACTOR, os.O_RDONLY)

    def factor(self):
        return float(os.pread(self.descriptor, 10, 0))  # reads it


class Line(Plain):
    def factor(self):
        linecache.clearcache()
        return float(linecache.getline(str(FACTOR), 1))  # reads it


class Data(Plain):
    def factor(self):
        return float(pkgutil.get_data(__name__, "factor.txt"))  # reads it


class Argument(Plain):
    def factor(self):
        return 1.0 + ("--fast" in sys.argv)  # reads it


class GivenArgument(Plain):
    def factor(self):
        return 1.0 + ("--fast" in given)  # reads it


class Flags(Plain):
    def factor(self):
        return 1.0 + sys.flags.optimize  # reads it


class Loaded(Plain):
    def factor(self):
        return 2.0 if "pdb" in sys.modules else 1.0  # reads it


class Terminal(Plain):
    def factor(self):
        return 2.0 if sys.stdout.isatty() else 1.0  # reads it


class Paths(Plain):
    flags = path = modules = 1.0

    def factor(self):
        return self.flags * self.path * self.modules * (sys.maxsize > 0)


class InThread(Plain):
    def factor(self):
        thread = threading.Thread(target=self.look)
        thread.start()
        thread.join()
        return 1.0

    def look(self):
        os.times()  # reads it


class InMemory(Plain):
    argv = 1.0

    def factor(self):
        return self.argv * float(io.BytesIO(b"1.0").read()) * float(io.StringIO("1.0").readline())


class LogsOnly(Plain):
    def factor(self):
        logging.getLogger("theirs").warning("called")
        return 1.0


class ReadsFileWhenBuilt(Plain):
    def __init__(self):
        super().__init__()
        self.scale = float(FACTOR.read_text())

    def factor(self):
        return self.scale


class Dropped(Plain):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5)
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    other = (datetime.now().hour + 12) % 24  # an hour, 7 hours and 30 years from now it is not this hour
    (tmp_path / "their_influences.py").write_text(SOURCE.replace("OTHER_HOUR", str(other)))
    (tmp_path / "factor.txt").write_text("1.5")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_influences", None)


@pytest.fixture
def find(tmp_path):
    def of(name, known=()):
        settings = Model(factory=f"their_influences:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 4]}])
        building.save(building.build(settings), tmp_path / "checkpoint", {})
        source_model = SourceModel(settings, tmp_path / "checkpoint")
        cases = inputs.generate([item.spec() for item in settings.inputs], seed=0, max_batch=4)
        eager = Eager(source_model)
        gathered = evidence.gather(cases, [eager.run(case.inputs) for case in cases], None, why="of no interest here")
        found = influences.find(source_model, gathered, timeout_s=60)
        return influences.add(found.findings, known), found.facts

    return of


def line_of(name, mark):
    return SOURCE[: SOURCE.index(mark, SOURCE.index(f"class {name}("))].count("\n") + 1


@pytest.mark.parametrize("name", ["Seconds", "Weekend", "Today", "Expires", "Uptime"])
def test_answers_that_change_with_the_clock_are_an_error_with_the_line_that_reads_it(find, name):
    (finding,) = (item for item in find(name)[0] if item.severity == "error")
    assert (finding.kind, finding.severity) == ("hidden-influence", "error")
    assert finding.message.startswith("the answers change with the clock: ")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# reads it')}")


@pytest.mark.parametrize(("name", "variable"), [("Scaled", "THEIR_SCALE"), ("Mode", "THEIR_MODE"), ("Built", "THEIR_FLAG")])
def test_answers_that_change_with_the_environment_are_an_error_with_the_variable_and_its_line(find, name, variable):
    (finding,) = find(name)[0]
    assert (finding.kind, finding.severity) == ("hidden-influence", "error")
    assert finding.message.startswith(f"the answers change with the environment variable {variable}: ")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# reads it')}")


def test_a_variable_that_is_set_is_removed(find, monkeypatch):
    monkeypatch.setenv("THEIR_SCALE", "3")
    (finding,) = find("Scaled")[0]
    assert "THEIR_SCALE: unset in place of '3', output 'output' differs by" in finding.message


@pytest.mark.parametrize("name", ["Counts", "Globally", "Remembers"])
def test_answers_that_change_with_the_number_of_questions_are_an_error_with_the_line_that_counts(find, name):
    (finding,) = find(name)[0]
    assert (finding.kind, finding.severity) == ("hidden-influence", "error")
    assert finding.message.startswith("the answers change with earlier calls: after ")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# writes it')}")


@pytest.mark.parametrize("name", ["Late", "Default", "Enclosed", "Iterated", "Owned"])
def test_state_that_changes_and_is_read_is_named_with_its_line_although_no_answer_moved_yet(find, name):
    (finding,) = find(name)[0]
    assert (finding.kind, finding.severity) == ("hidden-influence", "warning")
    assert finding.message.startswith("forward reads what it changed in earlier calls")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# writes it')}")


def test_a_generator_that_no_seed_reaches_is_state_between_questions(find):
    (finding,) = find("Generator")[0]
    assert "earlier calls" in finding.message


def test_a_factory_that_draws_without_a_seed_answers_differently_in_every_process(find):
    findings = [item for item in find("Unseeded")[0] if item.severity == "error"]
    assert [item.message[:38] for item in findings] == ["the answers change with the process: i"]


@pytest.mark.parametrize("name", ["Plain", "Times", "Logs", "Caches", "KeepsLast", "Verbose"])
def test_an_honest_model_that_looks_at_the_clock_keeps_a_cache_or_reads_a_variable_is_left_alone(find, name):
    findings, facts = find(name)
    assert [item for item in findings if item.severity == "error"] == []
    assert bool(facts["read"].get("clock")) == (name in ("Times", "Logs"))
    assert facts["calls"] > 10
    assert len(findings) == (name in ("Times", "Logs", "Verbose"))
    if name == "Verbose":
        assert set(facts["tried"]["environment"].values()) == {"the same answers"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("Morning", "clock"),
        ("Summer", "clock"),
        ("Noon", "clock"),
        ("Zone", "time zone"),
        ("ZoneAtImport", "time zone"),
        ("Locale", "locale"),
        ("German", "locale"),
        ("Cores", "number of CPUs"),
        ("Affinity", "number of CPUs"),
        ("Hostname", "host"),
        ("Node", "host"),
        ("Odd", "process id or user"),
        ("Active", "threads"),
        ("Opened", "files"),
        ("Text", "files"),
        ("Drawn", "random numbers of the system"),
    ],
)
def test_answers_that_change_with_a_source_that_forward_reads_are_an_error_with_its_line(find, name, source):
    (finding,) = (item for item in find(name)[0] if item.severity == "error")
    assert finding.message.startswith(f"the answers change with the {source}: ")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# reads it')}")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("Level", "environment"),
        ("Numpy", "clock"),
        ("Timer", "clock"),
        ("Exists", "files"),
        ("Listed", "files"),
        ("System", "random numbers of the system"),
        ("Network", "network or other programs"),
        ("Handle", "files"),
        ("Line", "files"),
        ("Data", "files"),
        ("Mapped", "files"),
        ("Descriptor", "files"),
        ("Argument", "command line"),
        ("GivenArgument", "command line"),
        ("Flags", "state of the interpreter"),
        ("Loaded", "state of the interpreter"),
        ("Terminal", "state of the interpreter"),
        ("InThread", "clock"),
    ],
)
def test_a_source_that_forward_reads_is_named_with_its_line_although_no_answer_moved(find, name, source):
    (finding,) = find(name)[0]
    assert (finding.kind, finding.severity) == ("hidden-influence", "warning")
    assert finding.message.startswith(f"forward reads the {source} (")
    assert finding.where.endswith(f"their_influences.py:{line_of(name, '# reads it')}")


@pytest.mark.parametrize("name", ["LogsOnly", "ReadsFileWhenBuilt", "InMemory", "Paths", "Statistics"])
def test_a_log_a_count_a_stream_in_memory_and_a_file_that_the_constructor_reads_are_no_influence(find, name):
    assert find(name)[0] == []


RANDOM = Finding("random-forward", "error", "it draws random numbers")


def test_random_numbers_stay_random_numbers_and_what_an_influence_explains_does_not(find):
    assert find("Dropped", [RANDOM])[0] == [RANDOM]
    assert [item.kind for item in find("Seconds", [RANDOM])[0]] == ["hidden-influence"]


LOOK = """
import datetime
import os
import time
from datetime import date, datetime as imported


class Looker:
    def look(self):
        return {
            "time": time.time(), "time_ns": time.time_ns() / 1e9, "now": datetime.datetime.now().timestamp(),
            "utcnow": imported.utcnow().replace(tzinfo=datetime.UTC).timestamp(), "aware": imported.now(datetime.UTC).timestamp(),
            "today": imported.today().timestamp(), "mktime": time.mktime(time.localtime()),
            "ctime": time.mktime(time.strptime(time.ctime())),
            "strftime": float(time.strftime("%s")), "monotonic": time.monotonic(),
        }

    def kinds(self):
        made, later = datetime.datetime(2020, 1, 2), datetime.datetime.now() + datetime.timedelta(days=1)
        return [isinstance(later, imported), isinstance(made, date), issubclass(imported, date), made < later,
                isinstance(date.today(), date),
                isinstance(date(2020, 1, 1), imported), time.gmtime(0).tm_year == 1970, time.strftime("%Y", time.gmtime(0)) == "1970"]

    def read(self):
        return [os.environ.get("THEIRS"), "GONE" in os.environ, os.getenv("NEVER", "x")]
"""


class Looking:
    """Lives in a child under circumstances of ours."""

    def __init__(self, now, variables):
        self.circumstances = Circumstances(Setting(now, variables=tuple(variables.items())))
        self.circumstances.install()
        import their_looker

        self.looker = their_looker.Looker()

    def call(self, method):
        return getattr(self.looker, method)()

    def seen(self):
        reads = list(self.circumstances.reads)
        return [read.where for read in reads], sorted({read.what for read in reads if read.cause == "environment"})


def test_every_clock_of_python_shows_the_time_that_it_is_given(tmp_path, monkeypatch):
    (tmp_path / "their_looker.py").write_text(LOOK)
    monkeypatch.setenv("GONE", "1")
    with Isolated("the looker", Looking, 2_000_000_000.5, {"THEIRS": "given", "GONE": None}, timeout_s=60) as looker:
        found = looker.call("call", "look")
        assert all(value == pytest.approx(2_000_000_000, abs=1) for value in found.values()), found
        assert looker.call("call", "kinds") == [True, True, True, True, True, False, True, True]
        assert looker.call("call", "read") == ["given", False, "x"]
        lines, variables = looker.call("seen")
    assert variables == ["GONE", "NEVER", "THEIRS"]
    assert all("their_looker.py:" in line for line in lines)
