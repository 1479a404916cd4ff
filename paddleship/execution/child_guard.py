"""`python -m paddleship.execution.child_guard FD MODULE ARGUMENTS…`: run a module, and end its process group with the starting process.

The starting process holds the other end of the pipe FD. If it is killed it cannot clean up, but the kernel closes its end of the
pipe, so no process is left when the next run starts.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

from paddleship.execution import startup


def main() -> None:
    pipe, module, *arguments = sys.argv[1:]
    startup.keep_what_they_make()
    end_with(int(pipe))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(pipe: int) -> None:
    """End the process group of this process as soon as nobody holds the other end of the pipe."""
    threading.Thread(target=_hold, args=(pipe,), daemon=True).start()


def _hold(pipe: int) -> None:
    os.read(pipe, 1)  # returns when the other end is closed; nothing is ever written
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
