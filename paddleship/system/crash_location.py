"""Find the line of the user's code on which a child process crashed.

Python's faulthandler prints the stack of the crash. During a conversion, the user's functions run as copies that Paddle has rewritten:
the child writes a table of their lines beside each copy, because a crash leaves no time for it.
"""

from __future__ import annotations

import faulthandler
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paddleship.shipped.computing.references import is_users

_STACK = "Fatal Python error: "
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in ', re.MULTILINE)
_TABLE = ".lines.json"
_STANDARD_ERROR = 2


def print_stack() -> None:
    """Let a fatal signal print the Python stack of the current thread to standard error and then end the process.

    Removes Paddle's own handlers, if Paddle is loaded: where the crash has damaged the heap, they never return. Python's need no heap.
    """
    faulthandler.disable()
    if (paddle := sys.modules.get("paddle")) is not None:
        paddle.disable_signal_handler()
    faulthandler.enable(_STANDARD_ERROR, all_threads=False)


def locate(output: str) -> str | None:
    """`file:line` of the user's code at a crash, from the output of the process; None if no stack or no such line is in it."""
    _, dumped, stack = output.rpartition(_STACK)
    frames = [_origin(name, int(line)) for name, line in _FRAME.findall(stack)] if dumped else []
    return next((f"{name}:{line}" for name, line in frames if is_users(name)), None)


def rewritten_code(pid: int) -> Path:
    """The folder in which Paddle keeps the functions that a process has rewritten; a process that is killed leaves it behind."""
    return Path("~/.cache/paddle/to_static_tmp").expanduser() / str(pid)


@contextmanager
def origins_recorded() -> Iterator[None]:
    """Write the table of the original lines beside each function that Paddle rewrites in the block, and print the stack of a crash."""
    from paddle.jit.dy2static import program_translator

    print_stack()  # again, because the import of Paddle has set its own handlers
    original = program_translator.create_and_update_origin_info_map

    def recorded(*arguments: Any, **options: Any) -> Any:
        origins = original(*arguments, **options)
        tables: dict[str, dict[str, tuple[str, int]]] = {}
        for (file, line), info in origins.items():
            tables.setdefault(file, {})[str(line)] = (info.location.filepath, info.location.lineno)
        for file, table in tables.items():
            if not (path := _table(file)).exists():
                path.write_text(json.dumps(table), encoding="utf-8")
        return origins

    program_translator.create_and_update_origin_info_map = recorded
    try:
        yield
    finally:
        program_translator.create_and_update_origin_info_map = original


def _table(file: str) -> Path:
    return Path(file + _TABLE)


def _origin(file: str, line: int) -> tuple[str, int]:
    """The original place of a line that Paddle has rewritten; any other line as it is."""
    with suppress(OSError, ValueError, KeyError):
        name, number = json.loads(_table(file).read_text(encoding="utf-8"))[str(line)]
        return str(name), int(number)
    return file, line
