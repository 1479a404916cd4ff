"""The pinned packages of an image, as `docker/requirements/<runtime>.txt` names them."""

from __future__ import annotations

import re
from pathlib import Path

from paddleship.errors import CandidateError

_PLACE = Path("docker/requirements")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def folder() -> Path:
    """Where the files lie: in the checkout that is worked in, or else in the one that this library was loaded from."""
    return _PLACE if (_PLACE / "paddle.txt").is_file() else Path(__file__).parents[2] / _PLACE


def pins(path: Path) -> list[str]:
    """Every pin, `name==version`, those of the files that it includes with `-r` among them. Raises CandidateError."""
    found: list[str] = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CandidateError(
            f"{str(path)!r}, which says what an image holds, cannot be read ({error.strerror}): run in a checkout of paddleship, or "
            "install paddleship from one with `pip install -e`"
        ) from None
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["-r"]:
            found += pins(path.parent / words[1])
        elif words:
            found.append(words[0])
    return found


def names(path: Path) -> list[str]:
    """The names of all that is pinned."""
    return [found[0] for line in pins(path) if (found := _NAME.match(line))]
