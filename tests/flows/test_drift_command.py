"""`paddleship drift` and the flow `drift` by hand: they report, and start nothing unless they are asked to."""

import logging
from types import SimpleNamespace

import pytest

from flows import drift
from paddleship.cli import drift as drift_command
from paddleship.config import params_overlay
from paddleship.errors import Unavailable
from paddleship.orchestration import drift_check


@pytest.fixture
def told(monkeypatch, tmp_path, reviews_params):
    """What the command sends to Prefect, for a check that found drift, with a Prefect server there unless it is removed."""
    sent = []
    result = SimpleNamespace(headline="drift of x[0]", __bool__=lambda: False)
    local = SimpleNamespace(prefect_url=lambda: "http://127.0.0.1:9/api", use=lambda: None)
    monkeypatch.setattr(drift_command, "open_checkout", lambda: (tmp_path, local))
    monkeypatch.setattr(params_overlay, "load", lambda *_: reviews_params())
    monkeypatch.setattr(drift_check, "check", lambda *_, **__: result)
    monkeypatch.setattr(drift_check, "notify", lambda *_, **__: sent.append("x[0]") or ["x[0]"])
    monkeypatch.setattr("paddleship.drift.drift_page.rows", lambda _: [])
    monkeypatch.setattr("paddleship.drift.drift_page.not_watched", lambda _: [])
    return SimpleNamespace(sent=sent, local=local)


def run(*words):
    return drift_command.drift.main([*words], standalone_mode=False)


def test_drift_asked_for_by_hand_starts_no_retraining_unless_it_is_asked_for(told):
    run()
    assert told.sent == []
    run("--retrain")
    assert told.sent == ["x[0]"]


def test_the_flow_starts_no_retraining_unless_it_is_asked_for(told, monkeypatch, tmp_path):
    monkeypatch.setattr(drift.workspace, "checkout_of", lambda _: tmp_path)
    monkeypatch.setattr(drift.crashed_runs, "hold", lambda _: None)
    monkeypatch.setattr(drift, "_publish", lambda _: None)
    monkeypatch.setattr(drift, "get_run_logger", lambda: logging.getLogger("drift"))
    assert drift.drift.fn().is_completed()
    assert told.sent == []
    assert drift.drift.fn(retrain=True).is_completed()
    assert told.sent == ["x[0]"]


def test_a_retraining_without_a_prefect_server_is_refused(told):
    told.local.prefect_url = lambda: None
    with pytest.raises(Unavailable, match="--retrain needs a Prefect server"):
        run("--retrain")
