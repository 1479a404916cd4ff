"""Import `module:name` references from the params, and find the line of the user's code that raised an error."""

from __future__ import annotations

import importlib
import re
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput

_HERE = f"{Path(__file__).parents[2]}/"
_PYTHON = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_SITES = tuple({f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib")})
_PADDLE = tuple(f"{site}paddle/" for site in _SITES)
_CONVERTED = "In transformed code:"  # the message of Paddle's conversion: frames, the error, and often advice below it
_ERROR_LINE = re.compile(r"^\s+(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_HINT = "[Hint: "  # of Paddle, in the line after the sentence
_QUOTED_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def resolve(reference: str, *, key: str, error: type[BadInput]) -> Any:
    """Import the object that `reference` names; `key` is its key in the params. Raises `error`."""
    module, _, name = reference.partition(":")
    sys.dont_write_bytecode = True  # the folder of this code may be a dependency of stages, which compiled files would change
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as missing:
        raise error(f"{key} {reference!r} does not import {_missing(missing)}") from None
    except AttributeError:
        raise error(f"{key} {reference!r} does not exist (module {module!r} has no {name!r}): correct the name after the colon") from None
    except Exception as failure:
        raise error(f"{key} {reference!r} does not import ({explain(failure)}): fix the module") from None


def _missing(missing: ModuleNotFoundError) -> str:
    """Which module is missing, where it is imported, and the next step; of an installed package, its version lacks the module."""
    where = user_line(missing)
    what = f"no module named {missing.name!r}" + (f", imported at {where}" if where else "")
    package = sys.modules.get(str(missing.name).partition(".")[0])
    if package is not None and package.__name__ != missing.name and str(getattr(package, "__file__", "")).startswith(_SITES):
        version = f"{package.__name__} {getattr(package, '__version__', '')}".rstrip()
        return f"({what}; the installed {version} has none): change the import, or install the version that has it"
    return f"({what}): set code.root (of the doctor: --root) to the folder that holds it, or install the package"


def explain(failure: BaseException) -> str:
    """The exception in one line, with the innermost file and line of the user's code."""
    said, name = str(failure), type(failure).__name__
    text = sentence(said) or name
    if said.lstrip().startswith(_CONVERTED) and (inner := _ERROR_LINE.findall(said)):
        name, text = inner[0]
    where = user_line(failure)
    return f"{name}: {text}" + (f" at {where}" if where else "")


def sentence(said: str) -> str:
    """The message of an error without quoted frames: its last line, and before a hint of Paddle the sentence that the hint is about."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("File ", "[operator", "at "))]
    hint = next((number for number, line in enumerate(lines) if line.startswith(_HINT)), 0)
    return " ".join(lines[hint - 1 : hint + 1]) if hint else "".join(lines[-1:])


def user_line(failure: BaseException) -> str | None:
    """`file:line` of the innermost frame outside Python, installed packages and paddleship; None when there is none.

    Paddle's conversion runs a rewritten copy of the user's code and names the original place in its message.
    """
    quoted = [(name, int(line)) for name, line in _QUOTED_FRAME.findall(str(failure))]
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(failure.__traceback__)]
    return next((f"{name}:{line}" for name, line in [*reversed(quoted), *reversed(frames)] if is_users(name)), None)


@cache
def is_users(name: str, *, libraries: bool = False) -> bool:
    """Whether a source file belongs to the user: not to Python, Paddle, paddleship, Paddle's rewritten copies or an installed package.

    With `libraries`, code in other installed packages counts as the user's, such as the layers of a model library.
    """
    path = str(Path(name).resolve())
    if not Path(path).exists() or path.startswith((_HERE, *_PADDLE)) or "/to_static_tmp/" in path:
        return False
    installed = path.startswith(_SITES) or (path.startswith(_PYTHON) and "-packages/" in path)
    return libraries if installed else not path.startswith(_PYTHON)
