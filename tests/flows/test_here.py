"""How commands run a flow."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from contextlib import contextmanager
from flows.here import here, run_flow

_, local = here()
local.use()
from prefect import flow, flow_engine

@contextmanager
def record(_engine, join_on_exit=True):
    print(f"waits: {join_on_exit}")
    yield

flow_engine._send_heartbeats = record
run_flow(local, flow(lambda: None, name="quick"))
"""


def test_a_flow_ends_without_waiting_for_the_thread_that_sends_heartbeats(toy, environment):
    found = {**environment, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=toy, env=found, capture_output=True, text=True, check=False)
    assert done.stdout == "waits: False\n", done.stderr
