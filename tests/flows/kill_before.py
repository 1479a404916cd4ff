"""`python -m tests.flows.kill_before STEP promote|rollback VERSION`: the flow, in a process that is killed before that step."""

import os
import signal
import sys

from flows.here import here

if __name__ == "__main__":
    step, command, version = sys.argv[1:]
    checkout, local = here()
    local.use()
    from flows import promote, rolling_back

    rolling_back.STEPS = (*rolling_back.STEPS[: int(step)], lambda _place: os.kill(os.getpid(), signal.SIGKILL))
    getattr(promote, command)(version=version)
