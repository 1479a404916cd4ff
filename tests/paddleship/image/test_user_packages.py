"""The code of a candidate's runtime, preprocess kinds and decision in users' packages goes into its image, where both are found again."""

import subprocess
import sys

import pytest

from paddleship.image import user_packages
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import registry as kinds
from paddleship.shipped.computing.runtimes import registry as runtimes
from paddleship.shipped.computing.task_kinds import registry as decisions

CODE = """
from dataclasses import dataclass
from paddleship.shipped.computing.preprocess.registration import InputEncoder, Kind
from paddleship.shipped.computing.runtimes.registration import Kind as Made, Registration
from paddleship.shipped.computing.task_kinds.registration import Decision

@dataclass(frozen=True, kw_only=True)
class Plain(InputEncoder):
    pass

KIND = Kind("plain", Plain, "as it is", requirements=("numbers==1.0",))
UNUSED = Kind("unused", Plain, "as it is", requirements=("other==1.0",))
RUNTIME = Registration(name="theirs", load=print, candidates={"theirs": Made()}, source="onnx", requirements=())
DECISION = Decision("their-task", labels="theirs")
"""
POINTS = """
[paddleship.preprocess]
plain = their_package.all:KIND
unused = their_package.all:UNUSED
[paddleship.runtimes]
theirs = their_package.all:RUNTIME
[paddleship.decisions]
theirs = their_package.all:DECISION
[paddleship.tasks]
theirs = their_package.training:TASK_KIND
"""
FOUND = """
from paddleship.shipped.computing.preprocess import registry as kinds
from paddleship.shipped.computing.runtimes import registry as runtimes
from paddleship.shipped.computing.task_kinds import registry as decisions
print(kinds.registered("plain"), "|", runtimes.get("theirs"), "|", "unused" in kinds.found(), "|", decisions.registered("their-task"))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution with a package that registers two kinds and a runtime."""
    cached = (kinds.found, kinds.distributions, runtimes.found, runtimes.kinds, runtimes.distributions, decisions.found)
    package, about = tmp_path / "site/their_package", tmp_path / "site/their_package-2.0.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    (package / "__init__.py").touch()
    (package / "all.py").write_text(CODE, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 2.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[name]


def candidate(runtime, task="regression", **inputs):
    return Candidate("c", "m", runtime, "float32", 1, (), (), {"inputs": inputs}, "", task)


@pytest.mark.usefixtures("installed")
def test_a_runtime_a_kind_and_a_decision_of_one_distribution_are_all_found_in_the_image(tmp_path):
    target = tmp_path / "app"
    target.mkdir()
    both = candidate(
        "theirs", "their-task", x={"kind": "plain", "column": "x"}, y={"kind": "plain", "column": "y"}, z={"kind": "numbers", "column": "z"}
    )
    user_packages.lay_out(both, target)
    assert sorted(path.name for path in target.iterdir()) == ["their_package", "their_package-2.0.dist-info"]
    inside = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(target)!r}){FOUND}"], capture_output=True, text=True, check=True
    )
    assert inside.stdout.split(" | ") == [
        "their_package.all:KIND of their-package 2.0",
        "their_package.all:RUNTIME of their-package 2.0",
        "False",
        "their_package.all:DECISION of their-package 2.0\n",
    ]
    about = (target / "their_package-2.0.dist-info/entry_points.txt").read_text(encoding="utf-8")
    assert "paddleship.tasks" not in about, "what trains is no part of an image"
    assert user_packages.pins(both) == ["numbers==1.0"]


@pytest.mark.usefixtures("installed")
def test_a_candidate_of_our_own_kinds_takes_no_code_along(tmp_path):
    user_packages.lay_out(candidate("onnxruntime", z={"kind": "numbers", "column": "z"}), tmp_path / "app")
    assert not (tmp_path / "app").exists()
