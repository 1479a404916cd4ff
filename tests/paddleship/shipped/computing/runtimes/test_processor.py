"""A processor that lacks what a runtime needs is named before the runtime is loaded."""

from dataclasses import replace

import pytest

from paddleship.errors import CandidateError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.discovery import Registered
from paddleship.shipped.computing.runtimes import processor, registry
from tests.paddleship.shipped.serving.candidates import make_tensors

NEEDED = {"x86_64": ("sse4_1", "avx2")}


@pytest.fixture
def cpuinfo(tmp_path):
    def write(text):
        (tmp_path / "cpuinfo").write_text(text)
        return tmp_path / "cpuinfo"

    return write


def test_flags_that_the_processor_has_are_enough(cpuinfo):
    path = cpuinfo("processor : 0\nmodel name\t: A CPU\nflags\t\t: fpu sse4_1 avx avx2\n\nprocessor : 1\nflags : fpu\n")
    processor.require(NEEDED, "x", cpuinfo=path, machine="x86_64")


def test_a_flag_that_it_lacks_is_named_with_the_processor_and_the_runtime(cpuinfo):
    path = cpuinfo("model name\t: Old CPU @ 2 GHz\nflags\t\t: fpu avx sse4_1\n")
    with pytest.raises(
        CandidateError, match=r"the runtime 'x' needs a processor with avx2, which this one \(Old CPU @ 2 GHz\) has not: use"
    ):
        processor.require(NEEDED, "x", cpuinfo=path, machine="x86_64")


def test_another_machine_or_one_that_says_nothing_is_not_refused(cpuinfo, tmp_path):
    processor.require(NEEDED, "x", cpuinfo=cpuinfo("flags : fpu\n"), machine="aarch64")
    processor.require(NEEDED, "x", cpuinfo=cpuinfo("Features : fp asimd\n"), machine="x86_64")
    processor.require(NEEDED, "x", cpuinfo=tmp_path / "none", machine="x86_64")


def test_a_candidate_of_such_a_runtime_is_not_loaded(tmp_path, monkeypatch):
    make_tensors(tmp_path)
    ours = registry.get("onnxruntime")
    needing = replace(ours.registration, load=lambda *_: pytest.fail("it was loaded"), processor_flags={"x86_64": ("flag_of_tomorrow",)})
    monkeypatch.setattr(registry, "get", lambda _name: Registered(needing, ours.module))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(CandidateError, match="'onnxruntime' needs a processor with flag_of_tomorrow"):
        runtimes.load(tmp_path)
