"""What a person is told of where an image comes from."""

import pytest

from paddleship.cli import image_lineage
from paddleship.lineage.release import Lineage
from tests.paddleship.lineage.test_release import FACTS


@pytest.mark.parametrize(("valid", "said"), [(True, False), (False, True)])
def test_where_the_speedup_was_measured_is_told_and_whether_it_is_valid(valid, said):
    lineage = Lineage(**FACTS, measured_on="node7 (EPYC 9654, 96 cores)", benchmark_valid=valid)
    text = image_lineage.describe("image x:1", lineage)
    assert "  measured on   node7 (EPYC 9654, 96 cores)" in text
    assert ("7.3× eager (95% interval 7.2 to 7.4), not valid: the machine was not free" in text) is said


def test_a_run_without_experiment_and_tracker_names_the_lock_that_it_needs():
    commands = image_lineage.back(Lineage(**FACTS))
    assert commands[1] == f"  git checkout --quiet {'c' * 40}"
    assert "take the one where this command says of dvc.lock: the same" in commands[2]


def test_code_that_differs_from_the_commit_is_named_with_the_place_of_its_copy():
    facts = {**FACTS, "git_changes": ["examples/reviews/model.py"], "mlflow_run_id": "r" * 32}
    *_, last = image_lineage.back(Lineage(**facts))
    assert last.startswith("  # not as in the commit: examples/reviews/model.py; ")
    assert "keeps up to 20 MB of your code in source/code" in last
