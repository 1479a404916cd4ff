"""DVC's cache of runs, used beside other runs and with many entries; for DVC 3.67, whose methods `share` replaces.

DVC takes a file that another process has not finished for an entry, deletes it as corrupted, and fails if it is gone by then. And
`repro --pull` and `push` copy every entry each time. An entry is named after its content, so one that is there is the same; a stage needs
those of its own inputs.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from dvc.config import RemoteConfigError
from dvc.fs import HTTPFileSystem
from dvc.stage.cache import RunCacheNotSupported, StageCache, _get_stage_hash
from dvc_objects.fs.generic import copy, log_exceptions

_copy_all = StageCache.transfer


def share() -> None:
    """Replace the methods by which DVC copies and finds entries, in this process and its forks."""
    StageCache.transfer, StageCache.pull, StageCache._load = _transfer, _pull, _load


def _transfer(cache: Any, source: Any, target: Any, force: bool = True, *, below: str = "runs") -> list[tuple[str, str]]:
    """Copy the entries that the target lacks. Returns all of the source's."""
    if any(isinstance(odb.fs, HTTPFileSystem) for odb in (source, target)):
        return list(_copy_all(cache, source, target, force))
    here, there = _entries(source, below), _entries(target, below)
    for name in here.keys() - there.keys():
        log_exceptions(copy)(source.fs, here[name], target.fs, target.fs.join(target.path, *name.parts))
    return [(name.parent.name, name.name) for name in here]


def _pull(cache: Any, remote: str | None, odb: Any = None) -> Any:
    """Only note the remote; `_load` brings what a stage asks for."""
    try:
        found = odb or cache.repo.cloud.get_remote_odb(remote, "fetch --run-cache", hash_name="md5-dos2unix")
    except RemoteConfigError as error:
        raise RunCacheNotSupported(error) from error
    if isinstance(found.fs, HTTPFileSystem):
        raise RunCacheNotSupported(f"it is not supported over HTTP: {found.path}")
    cache.pulled = found


def _load(cache: Any, stage: Any) -> Any:
    """The newest entry for the inputs of a stage, here or in the noted remote; None without one."""
    if not (key := _get_stage_hash(stage)):
        return None
    local, below = cache.repo.cache.legacy, f"runs/{key[:2]}/{key}"
    if not _entries(local, below) and (remote := getattr(cache, "pulled", None)):
        _transfer(cache, remote, local, below=below)
    newest = max(_entries(local, below).values(), key=lambda path: Path(path).stat().st_mtime, default=None)
    return cache._load_cache(key, Path(newest).name) if newest else None


def _entries(odb: Any, below: str) -> dict[PurePosixPath, str]:
    """The whole entries of a cache of runs in a folder of it, by their place in the cache."""
    folder = odb.fs.join(odb.path, *below.split("/"))
    if not odb.fs.exists(folder):
        return {}
    found = {PurePosixPath(odb.fs.as_posix(odb.fs.relpath(path, odb.path))): path for path in odb.fs.find(folder)}
    return {name: path for name, path in found.items() if not name.name.startswith(".")}
