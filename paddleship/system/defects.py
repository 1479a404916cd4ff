"""A defect of paddleship itself: whose fault an unexpected exception is, and how it is reported."""

from __future__ import annotations

import re
import sysconfig
import tempfile
import traceback
from pathlib import Path

from paddleship.errors import Defect
from paddleship.shipped.common.references import is_users

_ROOT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_ROOT / package}/" for package in ("paddleship", "tasks", "flows"))
_RUNTIMES = f"{_ROOT / 'paddleship' / 'shipped' / 'runtimes'}/"
_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_NUMPY = f"{sysconfig.get_path('platlib')}/numpy/"
_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError, ArithmeticError, ValueError)
_RUNTIMES_OWN = (LookupError, ArithmeticError, ValueError)  # what compiled code throws by these names too
_PADDLE_CPP = re.compile(
    r"\((?:InvalidArgument|InvalidType|OutOfRange|NotFound|PreconditionNotMet|Unimplemented|Unavailable)\)|C\+\+ Traceback"
)
"""Paddle's compiled code throws ValueError, IndexError and TypeError; only the text tells them from Python's own."""


def is_ours(error: Exception) -> bool:
    """Whether an exception that is none of paddleship.errors is a mistake in the code of paddleship.

    That is one of Python's own errors, raised there or in what it called of the standard library or numpy, while no code of the user
    was running. What another library raises (Paddle, a converter, a runtime) is that library's answer to the model.
    """
    if isinstance(error, Defect):
        return True
    if type(error).__module__ != "builtins" or not isinstance(error, _MISTAKES) or isinstance(error, UnicodeError):
        return False
    files = [str(Path(frame.filename).resolve()) for frame in traceback.extract_tb(error.__traceback__)]
    last = next((file for file in reversed(files) if not _only_called(file)), "")
    if not last.startswith(_OURS) or any(is_users(file) and not file.startswith(_OURS) for file in files):
        return False
    return not (_PADDLE_CPP.search(str(error)) or (last.startswith(_RUNTIMES) and isinstance(error, _RUNTIMES_OWN)))


def report(error: Exception, *, what: str, folder: Path) -> str:
    """Write the traceback to a file, in `folder` where that is there; returns one line for people, which names the file."""
    where = folder if folder.is_dir() else Path(tempfile.gettempdir())
    path = where / f"{what}.defect.log"
    trace = "".join(traceback.format_exception(error))
    try:
        path.write_text(trace + (f"\nIn the child process:\n{error.trace}" if isinstance(error, Defect) else ""), encoding="utf-8")
    except OSError as closed:
        return f"{what} hit a defect of paddleship ({_line(error)}), and {path} cannot be written ({closed.strerror}): please report it"
    return f"{what} hit a defect of paddleship ({_line(error)}): please report it with {path}"


def _line(error: Exception) -> str:
    words = " ".join(str(error).split())[:300]
    return words if isinstance(error, Defect) else f"{type(error).__name__}: {words}".removesuffix(": ")


def _only_called(file: str) -> bool:
    """Whether a source file fails only because of what it was called with: Python's library and numpy."""
    library = file.startswith(_LIBRARY) and "-packages/" not in file
    return library or file.startswith(_NUMPY) or not Path(file).exists()
