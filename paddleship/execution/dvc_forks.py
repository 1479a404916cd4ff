"""`python -m paddleship.execution.dvc_forks FD FOLDER`: import DVC, and run the commands that the socket FD requests, each in a fork.

A request has three descriptors: a file with the arguments and the environment, a pipe whose other end the asking process holds, and where
the output goes. The answers are the process id and, at the end, the exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
from contextlib import suppress

from paddleship.execution import child_guard, startup

_IMPORTED = (  # what `repro` and `push` import when they need it, which each fork would do again
    "dvc.cli.parser",
    "dvc.cachemgr",
    "dvc.data_cloud",
    "dvc.lock",
    "dvc.rwlock",
    "dvc.scm",
    "dvc.repo.artifacts",
    "dvc.repo.datasets",
    "dvc.repo.index",
    "dvc.repo.metrics",
    "dvc.repo.open_repo",
    "dvc.repo.params",
    "dvc.repo.plots",
    "dvc.repo.push",
    "dvc.repo.stage",
    "dvc.repo.worktree",
    "dvc_data.hashfile.db.local",
    "dvc_data.hashfile.status",
    "dvc_data.index.push",
    "dulwich.ignore",
    "configobj",
    "ruamel.yaml",
)


def _serve(channel: socket.socket) -> None:
    """Serve requests one by one until the other end is closed."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 32, 3, socket.MSG_CMSG_CLOEXEC)
        if not message:
            return
        pid = os.fork()
        if not pid:
            channel.close()
            sys.exit(_be(*descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _be(request: int, guard: int, output: int) -> int:
    """In a fork: run the command. Returns its exit code."""
    from dvc.cli import main

    os.setsid()
    child_guard.end_with(guard)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.chdir(sys.argv[2])  # it may have been created again since
    with os.fdopen(request, encoding="utf-8") as file:
        file.seek(0)
        wanted = json.load(file)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["dvc", *wanted["arguments"]]  # its locks contain this name
    return int(main(wanted["arguments"]))


def main() -> None:
    startup.keep_what_they_make()
    for name in _IMPORTED:
        importlib.import_module(name)
    from paddleship.execution import dvc_run_cache

    dvc_run_cache.share()
    gc.freeze()  # forks share the memory of what they do not touch
    with socket.socket(fileno=int(sys.argv[1])) as channel, suppress(ConnectionError):  # the other end was killed
        _serve(channel)


if __name__ == "__main__":
    main()
