"""The import of users' code from its source: a compiled module may be stale or forged, and only sources are hashed."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from importlib import machinery
from pathlib import Path
from typing import Any, NoReturn

_LIBRARIES = (str(Path(__file__).parents[1]), *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _SourceLoader(machinery.SourceFileLoader):
    """Loads a module from its source; without the times of the source, Python neither reads nor writes a compiled one."""

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError(path)


_find_in = machinery.FileFinder.path_hook(
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (_SourceLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),  # a compiled module beside the sources is hashed like them
)


@cache
def compile_anew() -> None:
    """From now on, import modules outside Python, installed packages and paddleship from their sources only."""
    sys.path_hooks.insert(0, _finder)
    for folder in [entry for entry in sys.path_importer_cache if not _is_of_library(entry)]:
        del sys.path_importer_cache[folder]


def _finder(folder: str) -> Any:
    if _is_of_library(folder):
        raise ImportError("the folder of a library, whose compiled modules are read")
    return _find_in(folder)


def _is_of_library(folder: str) -> bool:
    return "-packages" in folder or any(folder == library or folder.startswith(f"{library}/") for library in _LIBRARIES)
