"""Runtimes are found by themselves, ours and those of installed packages, and two of one name are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from paddleship.errors import CandidateError, RegistrationError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import Kind, Registration

PLAIN = """
from paddleship.shipped.computing.runtimes.registration import Kind, Registration

RUNTIME = Registration(name={name!r}, load=print, candidates={{{candidate!r}: Kind()}}, source="onnx", requirements=("theirs==1.0",))
"""


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Put a distribution with one module and an entry point on the import path."""
    cached = registry.found, registry.kinds, registry.distributions

    def make(module, source, value="RUNTIME"):
        (tmp_path / f"{module}.py").write_text(source)
        about = tmp_path / f"{module}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{module} = {module}:{value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        for function in cached:
            function.cache_clear()

    yield make
    for function in cached:
        function.cache_clear()
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_every_file_that_loads_a_candidate_is_found_without_a_list():
    folder = Path(registry.__file__).parent
    doors = {path.stem for path in folder.glob("*.py") if "\ndef load(folder: Path, candidate: Candidate)" in path.read_text()}
    assert {one.module.rpartition(".")[2] for one in registry.found().values() if one.entry_point is None} == doors
    assert next(iter(registry.found())) == "paddle"


def test_a_runtime_of_an_installed_package_is_registered_with_what_it_pins(offer):
    offer("theirs_one", PLAIN.format(name="theirs", candidate="theirs-fast"))
    assert registry.of("theirs-fast").name == "theirs"
    assert registry.kinds()["theirs-fast"].runtime == "theirs"
    assert {"theirs", "theirs_one"} <= set(registry.distributions())


@pytest.mark.parametrize(
    ("name", "candidate", "words"),
    [
        ("openvino", "other", r"two runtimes are called 'openvino', in .*openvino and in theirs_two:RUNTIME of theirs_two 1.2"),
        ("theirs", "onnxruntime", r"onnx_runtime and theirs_two:RUNTIME of theirs_two 1.2 both have a candidate 'onnxruntime'"),
    ],
)
def test_two_of_one_name_are_refused_and_both_are_named(offer, name, candidate, words):
    offer("theirs_two", PLAIN.format(name=name, candidate=candidate))
    with pytest.raises(RegistrationError, match=words):
        registry.found()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nowhere_at_all", "cannot be loaded .*No module named 'nowhere_at_all'"),
        ("RUNTIME = 3", "is int, not a Registration"),
        (PLAIN.format(name="theirs", candidate="theirs").replace("==1.0", ">=1.0"), "requires 'theirs>=1.0': pin it"),
    ],
)
def test_an_entry_point_that_is_no_registration_is_refused_by_name(offer, source, words):
    offer("theirs_three", source)
    with pytest.raises(RegistrationError, match=f"entry point theirs_three = theirs_three:RUNTIME of theirs_three .*{words}"):
        registry.found()


def test_a_registration_says_what_it_cannot_be():
    def register(**changes):
        given = {"name": "x", "load": print, "candidates": {"x": Kind()}, "source": "onnx", "requirements": ()}
        return Registration(**(given | changes))

    for changes, words in [({"source": "torch"}, "'torch'"), ({"candidates": {}}, "names no candidate")]:
        with pytest.raises(RegistrationError, match=words):
            register(**changes)
    with pytest.raises(RegistrationError, match="precision 'float8'"):
        Kind("float8")


def test_a_candidate_of_a_runtime_that_is_gone_names_those_that_are_there():
    with pytest.raises(CandidateError, match=r"no runtime 'gone' \(registered are paddle, "):
        registry.get("gone")


def test_a_candidate_is_of_a_kind_only_where_its_runtime_has_one_of_its_name():
    def named(name, runtime):
        return Candidate(name, "m", runtime, "float32", 1, (), (), {}, "", "regression")

    assert registry.kind_of(named("paddle", "paddle")).exact
    assert not registry.kind_of(named("paddle", "onnxruntime")).exact
    assert not registry.kind_of(named("a part of it", "paddle")).exact


def test_finding_the_runtimes_imports_none_of_their_libraries():
    script = "import sys; from paddleship.shipped.computing.runtimes import registry; registry.kinds(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"paddle", "onnxruntime", "openvino", "nncf", "onnx", "pydantic", "paddleship.conversion"} & set(modules)
