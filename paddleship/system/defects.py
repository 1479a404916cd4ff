"""Defects of paddleship: decide whether an unexpected exception is one, and report it."""

from __future__ import annotations

import re
import sysconfig
import tempfile
import traceback
from pathlib import Path

from paddleship.errors import Defect, Unavailable, without_credentials
from paddleship.shipped.computing.references import is_users
from paddleship.system import disk, own_folder

_ROOT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_ROOT / package}/" for package in ("paddleship", "tasks", "flows"))
_RUNTIMES = f"{_ROOT / 'paddleship' / 'shipped' / 'computing' / 'runtimes'}/"
_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_NUMPY = f"{sysconfig.get_path('platlib')}/numpy/"
_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError, ArithmeticError, ValueError)
_RUNTIMES_OWN = (LookupError, ArithmeticError, ValueError)  # compiled code of runtimes raises these too
_PADDLE_CPP = re.compile(
    r"\((?:InvalidArgument|InvalidType|OutOfRange|NotFound|PreconditionNotMet|Unimplemented|Unavailable)\)|C\+\+ Traceback"
)
"""Paddle's compiled code throws ValueError, IndexError and TypeError; only the text tells them from Python's own."""


def is_ours(error: Exception) -> bool:
    """Whether an exception that is not in paddleship.errors is a defect in the code of paddleship.

    It is one if it is an exception of Python, raised in paddleship or in the standard library or numpy called from there, with no user
    code on the stack. Exceptions from another library (Paddle, a converter, a runtime) are about the model, not about paddleship.
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


def report(error: Exception, *, what: str, folder: Path) -> tuple[str, int]:
    """Write the traceback to a file in `folder` (else in the user's temporary folder); returns one line for people, and the exit code.

    If the disk is full, so that the file cannot be written, that is taken as the cause: a server or library may fail of it in any way.
    """
    path = _writable_folder(folder) / f"{what}.defect.log"
    trace = "".join(traceback.format_exception(error))
    try:
        text = trace + (f"\nIn the child process:\n{error.trace}" if isinstance(error, Defect) else "")
        path.write_text(without_credentials(text), encoding="utf-8")
    except OSError as closed:
        if outside := disk.full(closed, what=what):
            return f"{outside} (it ended with {_line(error)})", outside.exit_code
        return f"{what} hit a defect of paddleship ({_line(error)}), and {path} cannot be written ({closed.strerror}): please report it", 1
    return f"{what} hit a defect of paddleship ({_line(error)}): please report it with {path}", 1


def _writable_folder(folder: Path) -> Path:
    """`folder`, or the user's own temporary folder; a fixed name in a folder of all users belongs to the user who created it first."""
    if folder.is_dir():
        return folder
    try:
        return own_folder.temporary()
    except Unavailable:
        return Path(tempfile.mkdtemp(prefix="paddleship-"))


def _line(error: Exception) -> str:
    message = without_credentials(" ".join(str(error).split()))[:300]
    return message if isinstance(error, Defect) else f"{type(error).__name__}: {message}".removesuffix(": ")


def _only_called(file: str) -> bool:
    """Whether a source file belongs to Python's library or numpy, so that the error comes from its caller."""
    library = file.startswith(_LIBRARY) and "-packages/" not in file
    return library or file.startswith(_NUMPY) or not Path(file).exists()
