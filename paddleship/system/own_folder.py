"""A user's own folder below one that all users of a machine share, such as /tmp: programs with fixed file names use it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from paddleship.errors import Unavailable

_PRIVATE = 0o700


def temporary() -> Path:
    """The user's own folder below the temporary one."""
    return below(Path(tempfile.gettempdir()))


def below(shared: Path) -> Path:
    """The user's own folder below `shared`, made if it does not exist; nobody else can read or write there. Raises Unavailable.

    Its name is known in advance, so another user may have taken it.
    """
    folder = shared / f"paddleship-{os.getuid()}"
    try:
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise Unavailable(f"{folder} cannot be made ({error.strerror}): set TMPDIR to a folder of your own") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise Unavailable(
            f"{folder} is not a folder of this user (owner {status.st_uid}, this user {os.getuid()}): "
            "remove it, or set TMPDIR to a folder of your own"
        )
    if stat.S_IMODE(status.st_mode) != _PRIVATE:
        folder.chmod(_PRIVATE)
    return folder
