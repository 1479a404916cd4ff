"""Task kinds are found by themselves, ours and those of installed packages, with their decisions."""

import subprocess
import sys

import pytest

from paddleship.config.sections.data import Data
from paddleship.custody import libraries
from paddleship.data.task_kinds import registry
from paddleship.errors import CandidateError, ParamsError, RegistrationError
from paddleship.shipped.computing.task_kinds import registry as decisions

DECISION = """
from paddleship.shipped.computing.task_kinds.registration import Decision
DECISION = Decision({name!r}, labels="theirs")
"""
KIND = """
import numpy as np
from paddleship.data.task_kinds.registration import Labels, Score, TaskKind
from paddleship.shipped.computing.task_kinds.registration import Decision
from {module}.decision import DECISION
SCORE = Score("theirs", "theirs", lambda outputs, labels: 1.0, tolerance=lambda rows, recorded: 0.0)
TASK_KIND = TaskKind({decision}, Labels(lambda column, classes: None, np.int64), loss=None, score=SCORE, fits=None)
"""
GROUPS = (f"[{decisions.GROUP}]\nx = {{0}}.decision:DECISION\n", f"[{registry.GROUP}]\nx = {{0}}.kind:TASK_KIND\n")
DATA = {"raw": "raw", "reader": "m:read", "inputs": ["x"]}


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Put a distribution with a package and its entry points on the import path."""
    modules = []

    def make(module, name, *, groups=GROUPS, decision="DECISION"):
        package, about = tmp_path / module, tmp_path / f"{module}-1.2.dist-info"
        package.mkdir()
        about.mkdir()
        (package / "__init__.py").touch()
        (package / "decision.py").write_text(DECISION.format(name=name), encoding="utf-8")
        (package / "kind.py").write_text(KIND.format(module=module, decision=decision), encoding="utf-8")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n", encoding="utf-8")
        (about / "entry_points.txt").write_text("".join(group.format(module) for group in groups), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        modules.append(module)
        for function in (registry.found, decisions.found):
            function.cache_clear()

    yield make
    for function in (registry.found, decisions.found):
        function.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in modules]:
        del sys.modules[name]


def test_a_kind_of_an_installed_package_is_found_by_every_registry(offer, tmp_path):
    offer("their_task", "ranking")
    assert Data(**DATA, task="ranking").task == "ranking"
    assert registry.get("ranking").decision is decisions.get("ranking")
    assert str(decisions.registered("ranking")) == "their_task.decision:DECISION of their_task 1.2"
    assert libraries.versions()["their_task"] == "1.2"
    before = registry.code("ranking")
    assert before.keys() == {"task ranking", "decision ranking"} <= libraries.versions().keys()
    with (tmp_path / "their_task/kind.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    assert all(registry.code("ranking")[what] != digest for what, digest in before.items())
    assert registry.code("tagging") == {}


def test_a_task_that_nothing_registers_is_refused_with_those_that_are(offer):
    offer("their_task", "ranking")
    for get, error in ((registry.get, ParamsError), (decisions.get, CandidateError)):
        with pytest.raises(error, match=r"there is no task kind 'sorting'.* ranking, .*tagging"):
            get("sorting")
    with pytest.raises(ValueError, match=r"Input should be 'classification', .* 'ranking', .* or 'tagging'"):
        Data(**DATA, task="sorting")


def test_a_kind_of_a_name_that_is_taken_is_refused(offer):
    offer("their_task", "tagging")
    with pytest.raises(RegistrationError, match="two task kinds are called 'tagging'"):
        decisions.found()
    assert decisions.get("tagging").name == registry.get("tagging").name == "tagging", "entry points are not loaded for a kind of ours"


@pytest.mark.parametrize(
    "changes", [{"groups": GROUPS[1:]}, {"decision": "Decision('ranking', labels='another')"}], ids=["none", "another"]
)
def test_a_kind_whose_decision_a_server_would_not_find_is_refused(changes, offer):
    offer("their_task", "ranking", **changes)
    with pytest.raises(
        RegistrationError, match=r"the decision of the task kind 'ranking' .* name it in .* entry points of paddleship.decisions"
    ):
        registry.found()


def test_params_of_our_tasks_load_no_code_of_others(offer, tmp_path):
    offer("their_task", "ranking")
    path = str(tmp_path)
    script = f"import sys; sys.path.insert(0, {path!r}); from paddleship.config.sections.data import Data; Data(**{DATA!r}, task='tagging')"
    done = subprocess.run([sys.executable, "-c", f"{script}; print(*sys.modules)"], capture_output=True, text=True, check=True)
    assert "paddleship.shipped.computing.task_kinds.tagging" in done.stdout.split()
    assert "their_task" not in done.stdout.split()
