"""The zoo: what is expected of its models is well formed, `misses` names what departs from it, and the short selection is met."""

from dataclasses import replace

import pytest

from benchmarks.zoo import catalogue
from benchmarks.zoo.__main__ import table, visit
from benchmarks.zoo.observing import misses
from benchmarks.zoo.specimen import floats, specimen
from paddleship.doctor.examination import RuntimeRow
from paddleship.reports.finding import KINDS, Finding

RUNTIMES = {"paddle": RuntimeRow("proven"), "paddle-onednn": RuntimeRow("proven"), "onnxruntime": RuntimeRow("failed")}


def marked(x):
    return float(x)  # <- python-value


PLACE = f"test_zoo.py:{marked.__code__.co_firstlineno + 1}"
TRAP = specimen(marked, floats("x", 8), finding="python-value", because="a test")
HEALTHY = replace(TRAP, finding="", proven=("paddle",))


def finding(kind="python-value", where=f"somewhere/{PLACE}"):
    return Finding(kind, "error", "words", where=where)


def test_every_specimen_has_its_own_name_and_expects_a_known_kind():
    known = catalogue.specimens()
    assert len(known) == len(catalogue.choose([])) > 80
    assert {item.finding for item in known.values()} <= {"", *KINDS}
    assert {kind for item in known.values() for kind in item.also} <= set(KINDS)
    assert set(catalogue.SHORT) <= set(known)


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match="the zoo has no Dodo"):
        catalogue.choose(["Dodo"])


def test_the_marked_line_is_what_a_finding_must_name():
    assert TRAP.place() == PLACE
    assert list(misses(TRAP, [finding()], RUNTIMES)) == []
    assert "the mark is at" in next(misses(TRAP, [finding(where="test_zoo.py:1")], RUNTIMES))
    assert "the mark is at" in next(misses(TRAP, [finding(where=None)], RUNTIMES))


def test_a_trap_that_is_not_found_is_missed():
    assert list(misses(TRAP, [], RUNTIMES)) == ["python-value was not found"]


def test_a_finding_about_a_healthy_model_is_a_false_alarm():
    assert next(misses(HEALTHY, [finding()], RUNTIMES)).startswith("false alarm")
    assert list(misses(HEALTHY, [replace(finding(), severity="note")], RUNTIMES)) == []


def test_a_finding_about_a_runtime_needs_a_runtime_that_is_not_proven():
    crash = finding("crash")
    assert list(misses(HEALTHY, [crash], RUNTIMES)) == []
    assert next(misses(HEALTHY, [crash], {"paddle": RuntimeRow("proven")})).startswith("false alarm")


def test_a_runtime_must_be_proven_or_refused_as_expected():
    assert list(misses(replace(HEALTHY, proven=("onnxruntime",)), [], RUNTIMES)) == ["onnxruntime is not proven"]
    assert list(misses(replace(HEALTHY, refused=("paddle",)), [], RUNTIMES)) == ["paddle is proven, and is wrong"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_short_zoo_has_the_outcomes_it_must_have():
    seen = visit(catalogue.choose([], short=True))
    assert all(seen), table([observation for observation in seen if not observation])
