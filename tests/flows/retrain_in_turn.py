"""`python -m tests.flows.retrain_in_turn STEPS`: the flow `retrain` several times in one process, each after a commit."""

import json
import subprocess
import sys
from pathlib import Path

from paddleship.cli.command_context import load_flow, open_checkout, run_flow

if __name__ == "__main__":
    checkout, local = open_checkout()
    flow = load_flow(checkout, local, "flows.retrain").retrain
    for how, given in json.loads(sys.argv[1]):
        Path("how/train").write_text(how)
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qam", how], check=False)
        state = run_flow(local, flow, **given, until="export")
        print(f"\n=> {state.name}: {state.message}")
