"""Eager models whose answers depend on more than their inputs, each over real processes, and honest ones that only look as if."""

import sys

import pytest

from paddleship.config.params import Model
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof import evidence, influences, inputs
from paddleship.proof.circumstances import Circumstances
from paddleship.reports.finding import Finding
from paddleship.system.isolate import Isolated

SOURCE = """
import datetime as module
import os
import random
import time
from datetime import date, datetime, timedelta
from os import environ

import numpy as np
import paddle
from paddle import Tensor, nn

SEEN = []
CALLS = 0


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
        SEEN.append((datetime.now().isoformat(), isinstance(datetime.now(), datetime), time.strftime("%H")))
        return 1.0


class Caches(Plain):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        if len(x) not in self.cache:
            self.cache[len(x)] = paddle.ones([len(x), 1])
        return self.norm(super().forward(x) * self.cache[len(x)])


class Verbose(Plain):
    def factor(self):
        return 1.0 if os.environ.get("THEIR_DEBUG") else 1.0


class Dropped(Plain):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5)
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_influences.py").write_text(SOURCE)
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


def test_a_generator_that_no_seed_reaches_is_state_between_questions(find):
    (finding,) = find("Generator")[0]
    assert "earlier calls" in finding.message


def test_a_factory_that_draws_without_a_seed_answers_differently_in_every_process(find):
    findings = [item for item in find("Unseeded")[0] if item.severity == "error"]
    assert [item.message[:38] for item in findings] == ["the answers change with the process: i"]


@pytest.mark.parametrize("name", ["Plain", "Times", "Logs", "Caches", "Verbose"])
def test_an_honest_model_that_looks_at_the_clock_keeps_a_cache_or_reads_a_variable_is_left_alone(find, name):
    findings, facts = find(name)
    assert [item for item in findings if item.severity != "note"] == []
    assert bool(facts["clock"]) == (name in ("Times", "Logs"))
    assert facts["calls"] > 10
    if name == "Verbose":
        assert set(facts["environment"]["THEIR_DEBUG"].values()) == {"the same answers"}


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
        self.circumstances = Circumstances(now, variables=variables)
        self.circumstances.install()
        import their_looker

        self.looker = their_looker.Looker()

    def call(self, method):
        return getattr(self.looker, method)()

    def seen(self):
        return list(self.circumstances.clock), sorted(self.circumstances.variables)


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
