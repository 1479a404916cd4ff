"""`python -m tests.flows.kill_before STEP promote|rollback VERSION`: the flow, in a process that is killed before that step."""

import os
import signal
import sys

from paddleship.cli.command_context import open_checkout

if __name__ == "__main__":
    step, command, version = sys.argv[1:]
    checkout, local = open_checkout()
    local.use()
    from flows import promote
    from paddleship.rollout import rollback

    rollback.STEPS = (*rollback.STEPS[: int(step)], lambda _place: os.kill(os.getpid(), signal.SIGKILL))
    getattr(promote, command)(version=version)
