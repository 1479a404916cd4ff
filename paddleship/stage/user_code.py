"""The user's code on the import path, before anything else of the same name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


def add(root: Path) -> None:
    """Let modules below `root` be imported first, also where the checkout has one of the same name that is imported already.

    A stage starts as `python -m tasks.<verb>`, which imports the checkout's package `tasks`: until that is removed from `sys.modules`, a
    user's package of this name is not found. The running program keeps what it imported. Child processes inherit the import path.
    """
    folder, checkout = root.resolve(), Path.cwd()
    sys.path.insert(0, str(folder))
    if folder == checkout:
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "paddleship" and _is_below(module, checkout / name.partition(".")[0]):
            del sys.modules[name]


def _is_below(module: ModuleType, path: Path) -> bool:
    """Whether a module is in this file (without suffix) or folder, and not only by a link from there."""
    locations = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(Path(location).is_relative_to(path) or Path(location).with_suffix("") == path for location in locations if location)
