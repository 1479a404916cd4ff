"""`python -m tests.flows.killed_at_once pending|running`: a command that is killed before its flow run does anything."""

import os
import signal
import sys

from paddleship.cli.command_context import open_checkout, run_flow


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _, local = open_checkout()
    local.use()
    from prefect import flow

    def name():
        return kill() if sys.argv[1] == "pending" else "at once"

    run_flow(local, flow(kill, name="killed", flow_run_name=name))
