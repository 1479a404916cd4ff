"""DVC's cache of runs, used beside other runs and with many entries; for DVC 3.67, whose methods `share` replaces.

DVC takes a file that another process has not finished for an entry, deletes it as corrupted, and fails if it is gone by then. And
`repro --pull` and `push` copy every entry each time. A push takes the outs of the stages as they are now, and an entry without its outs is
of no use, so here it takes the entries of these stages. An entry is named after its content, so one that is there is the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dvc.config import RemoteConfigError
from dvc.fs import HTTPFileSystem
from dvc.stage.cache import RunCacheNotSupported, StageCache, _get_cache_hash, _get_stage_hash
from dvc.stage.serialize import to_single_stage_lockfile
from dvc_objects.fs.generic import copy, log_exceptions


def share() -> None:
    """Replace the methods by which DVC copies and finds entries, in this process and its forks."""
    StageCache.push, StageCache.pull, StageCache._load = _push, _pull, _load


def _push(cache: Any, remote: str | None, odb: Any = None) -> list[tuple[str, str]]:
    """Copy the entries of the stages as they are now, if the remote lacks them. Returns these entries."""
    local, remote_cache = cache.repo.cache.legacy, odb or _remote(cache, remote, "push --run-cache")
    ran = [stage for stage in cache.repo.index.stages if stage.cmd and all(item.hash_info for item in (*stage.deps, *stage.outs))]
    keys = [_get_cache_hash(to_single_stage_lockfile(stage), key=True) for stage in ran]  # of dvc.lock: no file is hashed again
    names = [name for key in keys for name in _entries(local, key)]
    known = remote_cache.fs.exists([_path(remote_cache, *name) for name in names])
    _copy([name for name, is_there in zip(names, known, strict=True) if not is_there], local, remote_cache)
    return names


def _pull(cache: Any, remote: str | None, odb: Any = None) -> None:
    """Only note the remote; `_load` brings what a stage asks for."""
    cache.pulled = odb or _remote(cache, remote, "fetch --run-cache")


def _load(cache: Any, stage: Any) -> Any:
    """The newest entry for the inputs of a stage, here or in the noted remote; None without one."""
    key, local = _get_stage_hash(stage), cache.repo.cache.legacy
    if not _entries(local, key) and (remote := getattr(cache, "pulled", None)):
        _copy(_entries(remote, key), remote, local)
    newest = max(_entries(local, key), key=lambda name: Path(_path(local, *name)).stat().st_mtime, default=None)
    return cache._load_cache(*newest) if newest else None


def _remote(cache: Any, name: str | None, command: str) -> Any:
    """The remote's storage of entries. Raises RunCacheNotSupported."""
    try:
        odb = cache.repo.cloud.get_remote_odb(name, command, hash_name="md5-dos2unix")
    except RemoteConfigError as error:
        raise RunCacheNotSupported(error) from error
    if isinstance(odb.fs, HTTPFileSystem):
        raise RunCacheNotSupported(f"it is not supported over HTTP: {odb.path}")
    return odb


def _entries(odb: Any, key: str) -> list[tuple[str, str]]:
    """The whole entries for the inputs of a stage: the key of the inputs, and the name of the entry."""
    folder = _path(odb, key)
    names = [odb.fs.name(path) for path in odb.fs.find(folder)] if odb.fs.exists(folder) else []
    return [(key, name) for name in names if not name.startswith(".")]


def _copy(names: list[tuple[str, str]], source: Any, target: Any) -> None:
    for name in names:
        log_exceptions(copy)(source.fs, _path(source, *name), target.fs, _path(target, *name))


def _path(odb: Any, key: str, *name: str) -> str:
    return str(odb.fs.join(odb.path, "runs", key[:2], key, *name))
