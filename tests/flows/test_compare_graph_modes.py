"""The flow `compare-graph-modes` from the command line, with real processes and a real MLflow store."""

import subprocess

import pytest
from sqlalchemy import create_engine, text

from benchmarks.graph_modes.__main__ import _enough
from benchmarks.graph_modes.comparison import ModeResult
from tests.flows.helpers import PROGRAM, mlflow_runs, report_of


@pytest.fixture
def compared(linear_checkout_of, with_tables, environment):
    def run(*arguments):
        command = [PROGRAM, "compare-graph-modes", *arguments]
        return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False), checkout

    checkout = with_tables(linear_checkout_of("compared"))
    return run


@pytest.mark.slow
@pytest.mark.long  # the comparison runs in benchmarks/graph_modes/test_comparison
def test_the_flow_leaves_a_page_a_report_and_a_child_run_per_mode(compared):
    done, checkout = compared("--networks", "linear", "--modes", "paddle-static", "--rounds", "2", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "### Static trains 15–30% faster" in (checkout / "reports/compare-graph-modes.md").read_text()
    assert len(list((checkout / ".paddleship/artifacts").rglob("reports/compare-graph-modes.md"))) == 1
    rows = report_of(checkout, "compare-graph-modes")["candidates"]
    assert {name: row["status"] for name, row in rows.items()} == {"linear/paddle-eager": "measured", "linear/paddle-static": "measured"}
    assert [status for status, _ in mlflow_runs(checkout)] == ["FINISHED"] * 3
    store = create_engine(f"sqlite:///{checkout}/.paddleship/mlflow.db")
    with store.connect() as connection:
        (points,) = connection.execute(text("select count(*) from metrics where key = 'loss'")).one()
        (name,) = connection.execute(text("select name from runs where name like 'graph modes of linear (%)'")).one()
    store.dispose()
    assert points > 800
    assert name, "two random words alone would not say what the run is"


def test_a_network_with_nothing_to_compare_says_why():
    rows = {"paddle-eager": ModeResult("paddle-eager"), "torch-eager": ModeResult("torch-eager", reason="PyTorch is not installed here")}
    check = _enough("linear", rows, None)
    assert (check.passed, check.advice) == (False, "PyTorch is not installed here")
    assert _enough("reviews", {}, "data/prepared does not exist").advice == "data/prepared does not exist"
    assert _enough("linear", {mode: ModeResult(mode) for mode in rows}, None).passed


def test_rounds_that_give_no_interval_are_refused(compared):
    done, _ = compared("--rounds", "1")
    assert done.returncode == 2
    assert "graph_modes.rounds" in done.stderr
