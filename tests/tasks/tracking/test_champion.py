"""The copy of the ledger in MLflow."""

import pytest

from paddleship.promotion import answers
from paddleship.promotion.ledger import Entry, Ledger, Shipped
from paddleship.rollout.rollout_steps import send
from paddleship.tracking.champion import Registry
from tests.tasks.tracking.helpers import client


@pytest.fixture
def registry(store, tmp_path):
    return Registry(store, "m", artifact_root=(tmp_path / "artifacts").as_uri())


def shipped(version):
    return Shipped(model="m", version=version, image=f"m:{version}", image_id=f"sha256:{version}", candidate_digest=version * 64)


def entry(version, event="serving"):
    return Entry(event=event, action="promote", shipped=shipped(version), why="better", metrics={"accuracy": 0.9})


def test_an_entry_that_a_killed_process_sent_in_part_is_completed(registry, store, monkeypatch):
    one, recording = entry("1"), [{"request": 1}]
    with monkeypatch.context() as patch:
        patch.setattr(registry._client, "log_dict", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            registry.add(one, recording)
    assert registry.entries() == []
    registry.add(one, recording)
    assert registry.entries() == [one]
    assert registry.recording(shipped("1")) == recording
    (run,) = client(store).search_runs([client(store).get_experiment_by_name("m promotions").experiment_id])
    assert run.info.status == "FINISHED"


def test_each_image_keeps_its_own_answers_though_mlflow_gets_them_late(registry, tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl", "m")
    for version in "12":
        ledger.append(entry(version))
        answers.save(ledger.recordings, version * 64, [{"request": version}])
    send(registry, ledger)
    assert [registry.recording(shipped(version)) for version in "12"] == [[{"request": "1"}], [{"request": "2"}]]
