"""Atomic writes of files and folders, and their hashes."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput


def sha256(path: Path) -> str:
    """Hash of one file's bytes, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_sha256(files: Mapping[str, str]) -> str:
    """One hash of a tree of files, from the hash of each file by its relative path."""
    return hashlib.sha256("".join(f"{files[place]}  {place}\n" for place in sorted(files)).encode()).hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically: a reader sees the old file or the new one. What a killed process left of such a write goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        _remove_unless_held(left)
    handle, name = _new_beside(path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(0o666 & ~umask)
            Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _new_beside(path: Path) -> tuple[int, str]:
    """A new file beside `path`, which this process holds until it closes it or ends."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with suppress(OSError):  # without locks there, none of these files is ever removed
            fcntl.flock(handle, fcntl.LOCK_EX)
        if Path(name).exists():
            return handle, name
        os.close(handle)  # another process removed it before it was held


def _remove_unless_held(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(handle)


def read_json(path: Path, *, stage: str) -> Any:
    """Read the JSON file `path` that `stage` wrote. Raises BadInput."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{str(path)!r} cannot be read ({reason}): run `paddleship run --again {stage}`") from None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to fill; it replaces `path` when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def home() -> Iterator[None]:
    """Set HOME to a temporary folder if there is none that can be written: Paddle and Matplotlib write to it."""
    if _at_home():
        yield
        return
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory(prefix="paddleship-home-") as folder:
        os.environ["HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("HOME")
            os.environ.update({} if before is None else {"HOME": before})


def _at_home() -> bool:
    """Whether this user has a home folder that can be written."""
    try:
        folder = Path("~/.cache").expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: the home folder is unknown
        return False
    return os.access(folder, os.W_OK | os.X_OK)
