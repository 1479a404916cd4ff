"""A disk that is full, or that this user cannot write to: something outside paddleship, whatever exception reports it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from paddleship.errors import Unavailable

_FULL = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some of your quota there",
}
NEXT_STEPS = {
    **_FULL,
    errno.EROFS: "name folders in `paths` that can be written",
    errno.EACCES: "allow this user to use it, or name other folders in `paths`",
    errno.EPERM: "allow this user to use it, or name other folders in `paths`",
}


def full(error: BaseException, *, what: str) -> Unavailable | None:
    """The error of `what` if `error` reports a full disk, or was raised while another exception reported one; otherwise None.

    Compiled libraries, and exceptions from other processes, report it only in a message. An Unavailable reports it already.
    """
    seen: BaseException | None = None if isinstance(error, Unavailable) else error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            return _unavailable(seen, what)
        of_database = isinstance(seen, sqlite3.Error) and getattr(seen, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        if of_database or os.strerror(errno.ENOSPC) in str(seen):
            return _unavailable(OSError(errno.ENOSPC, ""), what)
        seen = seen.__cause__ or seen.__context__
    return None


@contextmanager
def full_is_unavailable(what: str) -> Iterator[None]:
    """Raise Unavailable instead of an exception that reports a full disk, or was raised while another one reported one."""
    try:
        yield
    except Exception as error:
        if outside := full(error, what=what):
            raise outside from error
        raise


def unavailable(error: BaseException, *, what: str) -> Unavailable | None:
    """As `full`; also if `error` itself reports a file that this user cannot write or use."""
    if isinstance(error, OSError) and error.errno in NEXT_STEPS:
        return _unavailable(error, what)
    return full(error, what=what)


def _unavailable(error: OSError, what: str) -> Unavailable:
    name = repr(str(error.filename)) if error.filename else "a file"
    number = error.errno or 0
    return Unavailable(f"{what} cannot use {name} ({os.strerror(number)}): {NEXT_STEPS[number]}, and run it again")
