"""The table of servers: shares of what is possible, servers that cannot be measured."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.choice.contest import ROOT
from benchmarks.serve import peers, servers, table
from benchmarks.serve.servers import Measured
from benchmarks.serve.table import BATCHED, CONSTANT, Rates
from paddleship.shipped.computing.spec import TensorSpec


def rates(**peer):
    """One connection: 500 a second; 32: 1,000, of a constant's 2,000 and 4,000 in process."""
    measured = {BATCHED: (500, 1000), CONSTANT: (1000, 2000), **peer}
    by_key = {(name, count): [Measured(pair[at], 1, 1, 0)] for name, pair in measured.items() for at, count in enumerate((1, 32))}
    return Rates(by_key, {1: [1000], 32: [4000]})


def test_shares_are_of_the_constant_of_both_in_turn_and_of_the_best_peer():
    figures = table.figures(rates(one=(100, 500), other=(90, 800)))
    assert figures == {
        "of_constant_1": 0.5,
        "of_constant_32": 0.5,
        "of_in_process_1": 1.0,
        "of_in_process_32": 0.75,
        "of_best_peer_32": 1.25,
        "failures": 0,
    }


def test_without_peers_none_is_compared_with():
    assert "of_best_peer_32" not in table.figures(rates())
    assert "Peer: not measured, it died" in table.of(rates(), {"Peer": "it died"})


def test_a_peer_is_asked_for_the_same_row_in_its_own_form():
    specs, row = [TensorSpec("text", "str", ("batch",)), TensorSpec("n", "float32", ("batch",))], {"text": ["好"], "n": [2.5]}
    bodies = {name: json.loads(peer.body({**row, "n": np.float32(row["n"])}, specs)) for name, peer in peers.PEERS.items()}
    assert bodies["LitServe"] == row
    assert bodies["mlflow models serve"]["dataframe_split"] == {"columns": ["text", "n"], "data": [["好", 2.5]]}
    assert [one["shape"] for one in bodies["MLServer"]["inputs"]] == [[1], [1]]
    assert [one["shape"] for one in bodies["Triton (PyTriton)"]["inputs"]] == [[1, 1], [1, 1]]


def test_a_server_that_does_not_answer_is_told_with_its_last_line():
    dies = [sys.executable, "-c", "import sys; sys.exit('no such candidate')"]
    with pytest.raises(RuntimeError, match=r"did not answer \(no such candidate\)"), servers.running(lambda _port: dies, "/", b"{}"):
        pass


def test_a_bench_without_a_candidate_says_how_to_make_one(tmp_path):
    done = _bench(tmp_path, PEERS="LitServe")
    assert done.returncode == 1
    assert "there is no candidate" in done.stderr


def _bench(folder, **environment):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.serve"],
        cwd=folder,
        env={**os.environ, "SHORT": "1", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
