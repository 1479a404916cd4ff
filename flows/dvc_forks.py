"""`python -m flows.dvc_forks FD FOLDER`: import DVC, and do the commands that the socket FD asks for, one by one, each in a fork.

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
from pathlib import Path, PurePosixPath
from typing import Any

from flows import child_guard, imports

_IMPORTED = ("dvc.cli", "dvc.commands.repro", "dvc.commands.data_sync", "dvc.repo", "dvc.repo.push")


def _serve(channel: socket.socket) -> None:
    """Do requests one by one until the other end is closed."""
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
    """In a fork: do the command. Returns its exit code."""
    from dvc.cli import main

    os.setsid()
    child_guard.end_with(guard)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.chdir(sys.argv[2])  # it may have been made anew since
    with os.fdopen(request, encoding="utf-8") as file:
        file.seek(0)
        wanted = json.load(file)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["dvc", *wanted["arguments"]]  # its locks name it so
    return int(main(wanted["arguments"]))


def _share_the_cache_of_runs() -> None:
    """Let DVC 3.67 use its cache of runs beside other runs, and with many entries.

    It takes a file that another process has not finished for an entry, deletes it as corrupted, and fails if it is gone by then. And
    `repro --pull` and `push` copy every entry each time. An entry is named after its content, so one that is there is the same; a stage
    needs those of its own inputs.
    """
    from dvc.config import RemoteConfigError
    from dvc.fs import HTTPFileSystem
    from dvc.stage.cache import RunCacheNotSupported, StageCache, _get_stage_hash
    from dvc_objects.fs.generic import copy, log_exceptions

    copy_all = StageCache.transfer

    def transfer(entries: Any, source: Any, target: Any, force: bool = True, *, below: str = "runs") -> list[tuple[str, str]]:
        if any(isinstance(odb.fs, HTTPFileSystem) for odb in (source, target)):
            return list(copy_all(entries, source, target, force))
        here, there = _entries(source, below), _entries(target, below)
        for name in here.keys() - there.keys():
            log_exceptions(copy)(source.fs, here[name], target.fs, target.fs.join(target.path, *name.parts))
        return [(name.parent.name, name.name) for name in here]

    def pull(entries: Any, remote: str | None, odb: Any = None) -> Any:
        """Only note the remote; `load` brings what a stage asks for."""
        try:
            found = odb or entries.repo.cloud.get_remote_odb(remote, "fetch --run-cache", hash_name="md5-dos2unix")
        except RemoteConfigError as error:
            raise RunCacheNotSupported(error) from error
        if isinstance(found.fs, HTTPFileSystem):
            raise RunCacheNotSupported(f"it is not supported over HTTP: {found.path}")
        entries.pulled = found

    def load(entries: Any, stage: Any) -> Any:
        if not (key := _get_stage_hash(stage)):
            return None
        cache, below = entries.repo.cache.legacy, f"runs/{key[:2]}/{key}"
        if not _entries(cache, below) and (remote := getattr(entries, "pulled", None)):
            transfer(entries, remote, cache, below=below)
        newest = max(_entries(cache, below).values(), key=lambda path: Path(path).stat().st_mtime, default=None)
        return entries._load_cache(key, Path(newest).name) if newest else None

    StageCache.transfer, StageCache.pull, StageCache._load = transfer, pull, load


def _entries(odb: Any, below: str) -> dict[PurePosixPath, str]:
    """The whole entries of a cache of runs in a folder of it, by their place in the cache."""
    folder = odb.fs.join(odb.path, *below.split("/"))
    if not odb.fs.exists(folder):
        return {}
    found = {PurePosixPath(odb.fs.as_posix(odb.fs.relpath(path, odb.path))): path for path in odb.fs.find(folder)}
    return {name: path for name, path in found.items() if not name.name.startswith(".")}


def main() -> None:
    imports.keep_what_they_make()
    for name in _IMPORTED:
        importlib.import_module(name)
    _share_the_cache_of_runs()
    gc.freeze()  # forks share the memory of what they do not touch
    with socket.socket(fileno=int(sys.argv[1])) as channel, suppress(ConnectionError):  # the other end was killed
        _serve(channel)


if __name__ == "__main__":
    main()
