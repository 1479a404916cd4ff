"""What others choose beside our choice: who is lost to, what did not run, and the short form with one peer."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import peer_environments
from benchmarks.choice import peer_table, peers
from benchmarks.choice.contest import ROOT
from benchmarks.choice.peer_comparison import OURS, Row
from benchmarks.choice.peers import PEERS, Peer
from benchmarks.peer_environments import Environment
from paddleship.errors import CandidateError, ParamsError
from paddleship.statistics.estimates import Interval


@pytest.mark.slow
@pytest.mark.long  # the stages, the bench workers, the forms of peers and the table each have tests of their own
def test_a_model_goes_through_the_stages_and_its_choice_is_looked_at_again_and_raced_with_a_peer(warm_commands):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.choice"],
        cwd=ROOT,
        env={**os.environ, "SHORT": "1", "PEERS": "onnxruntime", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    assert done.returncode in (0, 3), done.stderr
    assert (figures["models"], figures["failed"]) == (1, 0), done.stdout
    assert figures["recommender_chosen"] in ("paddle", "onnxruntime")
    assert figures["recommender_gain"] > 1
    assert figures["recommender_regret"] >= 0
    assert figures["peers_not_run"] == 0, done.stdout
    assert 0.1 < figures["recommender_onnxruntime_ratio"] < 20
    assert set(figures["recommender_lost_to"]) <= {"onnxruntime"}
    assert "whom we lose to: " in done.stdout
    assert "our choice: " in done.stdout
    assert PEERS["onnxruntime"].environment.site.is_dir()


def row(value, word, **rest):
    return Row("Peer", p50_ms=1.0, ratio=Interval(value, value - 0.01, value + 0.01), word=word, flip_rate=0.0, score=0.9, **rest)


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        (row(0.8, "better"), ["peer"]),
        (row(1.5, "worse"), []),
        (row(0.97, "cannot tell"), []),
        (row(0.8, "better", refused=("flip_rate_high",)), []),
        (Row("Peer", reason="it cannot be installed"), []),
    ],
)
def test_we_lose_to_who_is_faster_beyond_doubt_and_as_right(found, lost):
    rows = {OURS: Row("our choice: paddle", p50_ms=1.25, score=0.9), "peer": found}
    assert peer_table.lost_to(rows) == lost
    figures = peer_table.figures({"model": rows})
    assert (figures["model_lost_to"], figures["models_lost"], figures["peers_not_run"]) == (lost, len(lost), int(bool(found.reason)))
    shown = peer_table.table({"model": rows})
    assert f"whom we lose to: {', '.join(lost) or 'none of those that ran'}" in shown
    assert ("did not run: it cannot be installed" in shown) == bool(found.reason)
    assert ("faster, and verify would refuse: peer" in shown) == bool(found.refused)


def test_nothing_is_claimed_where_our_own_choice_did_not_run():
    shown = peer_table.table({"model": {OURS: Row("our choice: paddle", reason="it died"), "peer": Row("Peer")}})
    assert "nothing was compared" in shown
    assert "whom we lose to" not in shown


@pytest.mark.parametrize(("words", "names"), [("", []), ("1", list(PEERS)), ("openvino nncf", ["openvino", "nncf"])])
def test_peers_are_all_or_those_that_are_named(words, names):
    assert peers.chosen(words) == names


def test_an_unknown_peer_is_refused_with_the_known_ones():
    with pytest.raises(ParamsError, match=r"'tvm', which is no peer: .*openvino"):
        peers.chosen("openvino tvm")


def test_an_environment_that_cannot_be_installed_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_environments, "_FOLDER", tmp_path)
    nowhere = Environment("nowhere", ("no-such-package @ file:///nowhere/at/all",))
    reason = Peer("Nobody", nowhere, "as_it_is", "onnxruntime", "float32", ()).make(tmp_path / "x", tmp_path / "y", tmp_path / "z")
    assert "cannot be installed: " in reason
    assert not nowhere.ready


class Installed(Environment):
    """Our own Python in the place of an environment that must be installed."""

    def install(self):
        return ""

    @property
    def python(self):
        return sys.executable


@pytest.mark.parametrize(("form", "said"), [("as_it_is", ""), ("nncf_ptq", "Unable to read the model"), ("no_such_form", "KeyError")])
def test_a_form_that_cannot_be_made_is_a_reason(tmp_path, form, said):
    (tmp_path / "model.onnx").write_bytes(b"no model at all")
    np.savez(tmp_path / "rows.npz", **{"0/x": np.ones((4, 2), np.float32)})
    peer = replace(PEERS["onnxruntime"], environment=Installed("ours", ()), form=form)
    reason = peer.make(tmp_path / "model.onnx", tmp_path / "rows.npz", tmp_path / "made")
    assert said in reason
    assert bool(reason) == bool(said)
    assert (tmp_path / "made" / "model.onnx").exists() == (not said)


def test_a_library_of_ours_is_not_taken_for_a_peers(tmp_path):
    with pytest.raises(CandidateError, match="in the place of the peer's own"):
        peers._require_theirs(np.__file__, tmp_path)
