"""Snapshots: the state of a run as a commit, and its way through a git remote."""

import subprocess

import pytest
import yaml

from paddleship.errors import BadInput, Unavailable
from paddleship.execution import snapshots, stages, workspace
from tests.flows.helpers import DVC, git


@pytest.fixture
def clones(toy):
    """The toy and another clone, which share a git remote."""
    git(toy.parent, "clone", "--quiet", "--bare", str(toy), "origin.git")
    git(toy, "remote", "add", "origin", str(toy.parent / "origin.git"))
    git(toy.parent, "clone", "--quiet", "origin.git", "other")
    return toy, toy.parent / "other"


def test_a_snapshot_brings_params_and_locks_to_a_clone_that_does_not_know_the_commit(clones):
    here, there = clones
    (here / "how/train").write_text("better\n")
    git(here, "commit", "-qam", "not pushed")
    place = workspace.isolate(here, "run-1", {"train": {"epochs": 11}})
    (place.root / "dvc.lock").write_text("schema: '2.0'\n")
    (place.root / "data/dvc.lock").write_text("schema: '2.0' # of data\n")
    (place.root / "notes").write_text("of nobody's interest")
    before = git(place.root, "status", "--porcelain")
    commit = snapshots.take(place.root, {"stages": {"train": "ran"}})
    assert git(place.root, "status", "--porcelain") == before
    ref = snapshots.ref("run-1", "train")
    snapshots.send(here, commit, ref)
    assert snapshots.fetch(there, ref) == commit
    assert snapshots.base(there, commit) == workspace.commit(here)
    assert snapshots.facts(there, commit) == {"stages": {"train": "ran"}}
    other = workspace.isolate(there, "leg-1", {}, snapshots.base(there, commit))
    snapshots.adopt(other.root, commit)
    assert yaml.safe_load((other.root / "params.yaml").read_text())["train"]["epochs"] == 11
    assert (other.root / "how/train").read_text() == "better\n"
    assert (other.root / "data/dvc.lock").read_text() == "schema: '2.0' # of data\n"
    assert git(other.root, "status", "--porcelain") == before.replace("?? notes\n", "")
    snapshots.adopt(other.root, snapshots.base(there, commit))  # nothing differs
    assert snapshots.has_results(other.root)


def test_of_two_that_hand_back_the_same_snapshot_the_later_one_is_refused(clones):
    here, there = clones
    ref = snapshots.ref("run-1", "train")
    first = snapshots.take(here, {"stages": {}})
    snapshots.send(here, first, ref)
    assert snapshots.fetch(there, ref) == first
    second = snapshots.take(there, {"stages": {"train": "ran"}})
    snapshots.send(there, second, ref, instead_of=first)
    with pytest.raises(Unavailable, match="git push failed"):
        snapshots.send(here, snapshots.take(here, {"stages": {"train": "failed"}}), ref, instead_of=first)
    assert snapshots.fetch(here, ref) == second


def test_after_a_run_its_refs_are_gone_here_and_in_the_remote(clones):
    here, _ = clones
    snapshots.send(here, snapshots.take(here, {}), snapshots.ref("run-1", "train"))
    snapshots.send(here, snapshots.take(here, {}), snapshots.ref("run-2", "train"))
    snapshots.forget(here, "run-1")
    for repository in (here, here.parent / "origin.git"):
        assert git(repository, "for-each-ref", "--format=%(refname)", "refs/paddleship").split() == ["refs/paddleship/run-2/train"]


def test_a_kept_snapshot_is_an_experiment_of_dvc_that_other_clones_can_fetch(clones):
    here, there = clones
    place = workspace.isolate(here, "run-1", {"train": {"epochs": 11}})
    assert not snapshots.has_results(place.root)
    snapshots.keep(place.root, "run-1")
    snapshots.share(here, workspace.commit(here), "run-1")
    listed = subprocess.run([DVC, "exp", "list", "origin", "--name-only"], cwd=there, check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["run-1"]
    for _ in range(2):  # fetched, then known
        snapshots.have_experiment(there, workspace.commit(there), "run-1")
    assert git(there, "for-each-ref", "refs/exps").split()[-1].endswith("/run-1")
    with pytest.raises(BadInput, match=r"'run-2' is neither in .*/other nor in its git remote .* push it from there with `git push origin"):
        snapshots.have_experiment(there, workspace.commit(there), "run-2")


def test_a_clone_without_one_remote_for_all_machines_is_told_so(toy):
    with pytest.raises(BadInput, match="has no git remote"):
        snapshots.remote(toy)
    git(toy, "remote", "add", "team", "x")
    assert snapshots.remote(toy) == "team"
    git(toy, "remote", "add", "mine", "y")
    with pytest.raises(BadInput, match="several git remotes, and none is called origin"):
        snapshots.remote(toy)
    stages.require_remote(toy)
    (toy / ".dvc/config").write_text("")
    with pytest.raises(BadInput, match="DVC has no default remote"):
        stages.require_remote(toy)


def test_a_remote_that_does_not_answer_is_one_line(toy):
    git(toy, "remote", "add", "origin", str(toy.parent / "nowhere.git"))
    with pytest.raises(Unavailable, match=r"git push failed in .*: check the repository, and the access to its remote"):
        snapshots.send(toy, snapshots.take(toy, {}), snapshots.ref("run-1", "train"))
