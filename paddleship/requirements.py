"""The pinned packages of an image, as `docker/requirements/<runtime>.txt` names them."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def pins(path: Path) -> list[str]:
    """Every pin, `name==version`, those of the files that it includes with `-r` among them."""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["-r"]:
            found += pins(path.parent / words[1])
        elif words:
            found.append(words[0])
    return found


def names(path: Path) -> list[str]:
    """The names of all that is pinned."""
    return [found[0] for line in pins(path) if (found := _NAME.match(line))]
