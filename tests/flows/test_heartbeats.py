"""The heartbeats of a flow that a command runs; test_deployment sees them arrive."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import threading
from paddleship.orchestration import heartbeats
from paddleship.cli.command_context import open_checkout, run_flow

_, local = open_checkout()
local.use()
from prefect import flow
from prefect.flow_engine import BaseFlowRunEngine

def work():
    print([thread.name for thread in threading.enumerate() if thread.name == heartbeats.THREAD])
    while not sent:
        pass

sent = []
BaseFlowRunEngine._emit_flow_run_heartbeat = lambda _engine, *event: sent.append(event)
run_flow(local, flow(work, name="quick"))
print(len(sent), [thread.name for thread in threading.enumerate() if thread.name == heartbeats.THREAD])
"""


def test_a_flow_sends_heartbeats_until_it_ends(toy, environment):
    found = {**environment, "PYTHONPATH": str(Path.cwd()), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=toy, env=found, capture_output=True, text=True, check=False)
    assert done.stdout == "['heartbeats']\n1 []\n", done.stderr
