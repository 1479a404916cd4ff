"""`make pipeline-bench`: stored runs are copies that commands see as runs, and a missed goal is its exit code."""

import json
import subprocess

import pytest

from benchmarks.pipeline import __main__ as bench
from benchmarks.pipeline import stored
from tests.flows.helpers import PROGRAM, git

SECONDS = {
    **{"bare": [1.0, 2.0, 3.0], "dvc": [2.0, 3.0, 4.0], "first": [9.0, 9.0, 9.0], "unchanged": [2.0, 2.0, 2.0]},
    **{"warm": [5.0, 7.0, 7.0], "cached": [4.0, 4.0, 4.0], "warm_with_ui": [4.0, 4.0, 4.0]},
    **{"bare_8_at_once": [8.0], "8_at_once": [24.0], "stored_10": [4.0, 5.0], "stored_1000": [4.2, 5.25]},
}


@pytest.mark.slow
@pytest.mark.long  # `make pipeline-bench` does it in each of its forms
def test_copies_of_a_run_are_runs_to_both_servers_and_to_git(toy, environment, with_tables):
    del environment["PREFECT_API_URL"], environment["PREFECT_HOME"]
    with_tables(toy)
    done = subprocess.run([PROGRAM, "run", "--until", "prepare"], cwd=toy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stored.add(toy, 3)
    assert stored.count(toy) == 4
    listed = subprocess.run([PROGRAM, "runs", "list"], cwd=toy, env=environment, capture_output=True, text=True, check=True).stdout
    assert listed.count(" done ") == 4, listed
    assert len(git(toy, "for-each-ref", "refs/exps").splitlines()) == 3
    for cache in (toy / ".dvc/cache/runs", toy.parent / "paddleship-remote/runs"):
        assert len([path for path in cache.rglob("*") if path.is_file()]) == 4 * 2, "fetch and prepare"


def test_what_a_case_adds_is_taken_from_the_bare_stages_of_the_same_round():
    found = bench._with_differences(SECONDS)
    assert (found["dvc_adds"], found["warm_adds"], found["8_at_once_add_each"]) == ([1.0, 1.0, 1.0], [4.0, 5.0, 4.0], [2.0])
    assert found["growth_percent"] == pytest.approx([5.0, 5.0])


@pytest.mark.parametrize(("changes", "code"), [({}, 0), ({"unchanged": [9.0]}, 3), ({"stored_1000": [8.0, 9.0]}, 3)])
def test_a_missed_goal_is_the_exit_code_of_the_long_form(changes, code, capsys):
    with pytest.raises(SystemExit) as end:
        bench._conclude(SECONDS | changes, goals=True)
    assert end.value.code == code
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["goal_growth_percent"] == 10.0
