"""Git's door: worktrees of their own for runs of their own."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from dvc.config import Config

from paddleship.errors import BadInput, ParamsError, Unavailable
from paddleship.execution import cleanup, snapshots, stages, workspace
from tests import canaries
from tests.flows.helpers import DVC, git


def values(root):
    return yaml.safe_load((root / "params.yaml").read_text())


def test_a_worktree_has_the_overlay_and_shares_cache_and_remote(toy):
    place = workspace.isolate(toy, "run-1", {"train": {"epochs": 11}})
    assert place.isolated
    assert place.params().train.epochs == 11
    assert values(toy)["train"]["epochs"] != 11
    config = (place.root / ".dvc/config.local").read_text()
    assert f"dir = {toy}/.dvc/cache" in config
    assert f"url = {toy.parent}/paddleship-remote" in config
    assert git(toy, "status", "--porcelain") == ""


def test_runs_that_begin_and_end_beside_each_other_do_not_disturb_each_others_worktrees(toy):
    def come_and_go(name):
        for number in range(15):
            place = workspace.isolate(toy, f"{name}-{number}", {})
            place.remove()
            place.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, "abcd"))
    assert workspace.worktrees(toy) == []
    assert len(git(toy, "worktree", "list").splitlines()) == 1


def test_a_worktree_reaches_remotes_with_the_credentials_of_the_checkout(toy):
    canaries.of_remote(toy)
    path = workspace.isolate(toy, "run-1", {}).root / ".dvc/config.local"
    assert canaries.in_bytes(path.read_bytes()) == ["remote"]
    assert path.stat().st_mode & 0o077 == 0
    assert git(toy, "status", "--porcelain") == ""


def test_an_overlay_keeps_comments_order_and_everything_else(toy):
    (toy / "params.yaml").write_text((toy / "params.yaml").read_text().replace("train:\n", "train:  # turn these\n"))
    git(toy, "commit", "-qam", "a comment")
    place = workspace.isolate(toy, "run-1", {"train": {"epochs": 11}, "model": {"kwargs": {"features": 2, "more": 1}}})
    expected = values(toy)
    expected["train"]["epochs"] = 11
    expected["model"]["kwargs"]["more"] = 1
    assert values(place.root) == expected
    before, after = ((root / "params.yaml").read_text().splitlines() for root in (toy, place.root))
    assert [line.split(":")[0] for line in after if "more" not in line] == [line.split(":")[0] for line in before]
    assert "train:  # turn these" in after


def test_a_section_of_free_keys_is_replaced_as_a_whole(toy):
    place = workspace.isolate(toy, "run-1", {"model": {"kwargs": {"width": 3}}})
    assert values(place.root)["model"]["kwargs"] == {"width": 3}


def test_a_retry_of_a_run_finds_its_folder_with_what_is_in_it(toy):
    first = workspace.isolate(toy, "run-1", {})
    (first.root / "prepare.txt").write_text("finished")
    with pytest.raises(Unavailable, match="run-1 is running in another process"):
        workspace.isolate(toy, "run-1", {})
    first.release()
    again = workspace.isolate(toy, "run-1", {})
    assert again == first
    assert (again.root / "prepare.txt").read_text() == "finished"


def test_a_worktree_is_removed_and_the_checkout_never(toy):
    place = workspace.isolate(toy, "run-1", {})
    place.remove()
    assert not place.root.exists()
    assert str(place.root) not in git(toy, "worktree", "list")
    workspace.in_place(toy).remove()
    assert (toy / "params.yaml").exists()


def test_an_overlay_is_checked_against_the_commit_before_a_folder_is_made(toy):
    with pytest.raises(ParamsError, match=r"mine\.yaml: unknown key 'train\.epoch' \(did you mean 'epochs'\?\)"):
        workspace.overlaid(toy, {"train": {"epoch": 1}}, origin="mine.yaml")
    assert not (toy / ".paddleship/runs").exists()


def test_committed_params_that_are_not_yaml_are_bad_input(toy):
    (toy / "params.yaml").write_text("train: [")
    git(toy, "commit", "-qam", "half a file")
    with pytest.raises(ParamsError, match=r"params\.yaml of the last commit is not YAML \("):
        workspace.overlaid(toy, {"train": {"epochs": 1}}, origin="mine.yaml")


def test_uncommitted_work_is_named_and_the_lock_is_not_work(toy):
    (toy / "dvc.lock").write_text("schema: '2.0'\n")
    git(toy, "add", "dvc.lock")
    (toy / "stage.py").write_text("changed")
    assert workspace.uncommitted(toy) == ["stage.py"]


def test_a_folder_without_a_commit_cannot_have_isolated_runs(tmp_path):
    git(tmp_path, "init", "-q")
    with pytest.raises(BadInput, match="git worktree failed"):
        workspace.isolate(tmp_path, "run-1", {})


def test_the_worktree_of_a_living_run_is_left_alone_and_that_of_a_dead_one_goes_with_its_lineage_kept(toy):
    code = (
        "import sys, time; from pathlib import Path; from paddleship.execution import workspace; "
        "place = workspace.isolate(Path.cwd(), sys.argv[1], {'train': {'epochs': 11}}); print(place.root, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, "0123456789"], cwd=toy, stdout=subprocess.PIPE, text=True) as process:
        try:
            root = Path(process.stdout.readline().strip())
            (root / "data/raw").mkdir()
            (root / "data/raw/rows").write_text("rows\n")
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            subprocess.run([DVC, "repro", "-s", "prepare"], cwd=root, check=True, capture_output=True, env={**os.environ, "PATH": path})
            (root / "train.txt").write_text("half")
            assert cleanup.sweep(toy, on_line=print) == []
        finally:
            process.kill()
    assert cleanup.sweep(toy, on_line=print) == ["0123456789"]
    assert workspace.worktrees(toy) == []
    assert git(toy, "worktree", "list").count("\n") == 1
    ref = git(toy, "for-each-ref", "--format=%(refname)", "refs/exps/*/*/run-23456789").strip()
    assert yaml.safe_load(git(toy, "show", f"{ref}:params.yaml"))["train"]["epochs"] == 11
    assert list(yaml.safe_load(git(toy, "show", f"{ref}:dvc.lock"))["stages"]) == ["prepare"]


def test_a_worktree_that_was_never_whole_goes_too(toy):
    (toy / ".paddleship/runs/half").mkdir(parents=True)
    assert cleanup.sweep(toy, on_line=print) == ["half"]
    assert workspace.worktrees(toy) == []


def test_what_a_run_left_as_an_experiment_is_brought_back_into_a_worktree_that_goes_again(toy, environment):
    wanted = stages.graph(toy, until="prepare")
    place = workspace.isolate(toy, "run-1", {"train": {"epochs": 11}})
    for stage in wanted:
        stages.run(place.root, stage, environment=environment, on_line=lambda _: None)
    snapshots.keep(place.root, "run-1")
    place.remove()
    place.release()
    with workspace.at_experiment(toy, workspace.commit(toy), "run-1") as root:
        assert values(root)["train"]["epochs"] == 11
        assert not (root / "prepare.txt").exists()
        stages.bring(root, ["prepare"])
        assert (root / "prepare.txt").read_text() == "whole, 11 epochs"
    assert not root.exists()
    assert str(root) not in git(toy, "worktree", "list")


def test_an_isolated_run_uses_the_default_remote_of_the_checkouts_own_config(toy):
    for words in (["add", "--local", "--default", "own", "s3://bucket"], ["modify", "--local", "own", "endpointurl", "http://localhost:9"]):
        subprocess.run([DVC, "remote", *words], cwd=toy, check=True, capture_output=True)
    place = workspace.isolate(toy, "run-1", {})
    found = Config(str(place.root / ".dvc"))
    assert found["core"]["remote"] == "own"
    assert found["remote"]["own"]["endpointurl"] == "http://localhost:9"


def test_a_branch_that_only_the_remote_has_is_found_by_its_name(toy):
    git(toy.parent, "clone", "--quiet", "--bare", str(toy), "origin.git")
    git(toy, "remote", "add", "origin", str(toy.parent / "origin.git"))
    git(toy.parent / "origin.git", "branch", "feature")
    assert workspace.commit(toy, "feature") == workspace.commit(toy)
    with pytest.raises(BadInput, match="there is no commit, branch or tag 'nowhere'"):
        workspace.commit(toy, "nowhere")
