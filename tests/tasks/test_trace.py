"""What a person is told of where an image comes from."""

import json
from types import SimpleNamespace

import pytest

from paddleship.cli import image_lineage
from paddleship.containers import image
from paddleship.errors import Unavailable
from paddleship.lineage.release import Lineage
from paddleship.tracking import runs
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


THIS, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A function that says whether an image with the id THIS was accepted, by a release and model versions with these ids."""

    def ask(*, released=None, passed=True, registered=()):
        if released:
            (tmp_path / "release.json").write_text(json.dumps({"image_id": released, "accepted": passed}))
        versions = [runs.ModelVersion("sms", str(number), "run", "sms:1", one) for number, one in enumerate(registered, 1)]
        monkeypatch.setattr(runs, "versions", lambda _: versions)
        return image_lineage.accepted("sms:1", store="sqlite:///mlflow.db" if registered else None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(image, "connect", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(image, "id_of", lambda _client, _name: THIS)
    return ask


def test_an_image_is_called_accepted_by_its_id_and_never_by_its_labels(asked):
    assert asked(registered=[OTHER, THIS]) == "yes, version 2 of 'sms' has this image id"
    unknown = asked(released=OTHER, registered=[OTHER])
    assert unknown == (
        "not known: labels can be copied, and the image id sha256:aaaaaaaaaaaa is not that of release.json here or a model version of "
        "this checkout"
    )
    assert asked(released=THIS, passed=False).startswith("not known")
    assert asked(released=THIS) == "yes, release.json here names this image id"


def test_a_store_that_is_away_and_a_broken_release_leave_it_open(asked, monkeypatch, tmp_path):
    asked(registered=[THIS])
    (tmp_path / "release.json").write_text("{")
    monkeypatch.setattr(runs, "versions", lambda _: (_ for _ in ()).throw(Unavailable("MLflow does not answer")))
    text = image_lineage.accepted("sms:1", store="http://127.0.0.1:1")
    assert "release.json here or a model version (MLflow does not answer)" in text
    assert "  accepted      not known" in image_lineage.describe("image sms:1", Lineage(**FACTS), accepted=text)
