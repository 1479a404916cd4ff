"""Block pip and other installers in a process: missing packages are an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from paddleship.errors import CandidateError

_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda"})


def forbid() -> None:
    """Make this process refuse to start an installer.

    polygraphy, which paddle2onnx may call, installs missing packages if an environment variable is set.
    """
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS:
        return
    texts = list(_strings(arguments))
    if _INSTALLERS.intersection(text.rpartition("/")[2] for text in texts):
        raise CandidateError(f"`{' '.join(texts)[:200]}` would install packages at run time: install what is missing beforehand")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)
