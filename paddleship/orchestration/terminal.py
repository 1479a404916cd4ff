"""What the terminal shows: tables, and Prefect's messages without those that `paddleship` prints itself."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_ENGINE_FAILED = "Engine execution exited with unexpected exception"
_TASKS, _FLOWS = "prefect.task_runs", "prefect.flow_runs"
_ENDS = ("Finished in state ", "Task run failed with state", "Crash detected! Execution was aborted by an interrupt signal")


_LOG_WIDTH = 10_000


def show(table: Any) -> None:
    """Print a table of rich: as wide as the terminal (COLUMNS), and one line for each row in a file or pipe."""
    from rich.console import Console

    of_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if of_terminal else _LOG_WIDTH)
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()), flush=True)


def survive_closed_output() -> None:
    """Let a run continue if nobody reads its output any more, as in `paddleship run | head`."""
    sys.stdout, sys.stderr = (cast(TextIO, _Output(stream)) for stream in (sys.stdout, sys.stderr))


class _Output:
    """A stream that discards everything once its reader is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._discarding():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discarding():
            self._stream.flush()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def hide_repeated_errors() -> None:
    """Hide Prefect's messages about the end of the flow run and of failed tasks on the terminal."""
    import prefect.main  # noqa: F401 it sets up logging

    logging.getLogger("EventsWorker").setLevel(logging.ERROR)  # it only counts the events that it still sends
    for handler in logging.getLogger().handlers:
        if not any(isinstance(known, _RunEndFilter) for known in handler.filters):
            handler.addFilter(_RunEndFilter())


class _RunEndFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        tells_end = record.name == _FLOWS or (record.name == _TASKS and record.levelno >= logging.ERROR)
        return not (tells_end and record.getMessage().startswith(_ENDS))


def hide_tracebacks() -> None:
    """Hide the traceback that Prefect logs in the process of a worker when a flow returned a failed state, which its message explains."""
    logger = logging.getLogger(_FLOWS)
    if not any(isinstance(known, _NoTraceback) for known in logger.filters):
        logger.addFilter(_NoTraceback())


class _NoTraceback(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != _ENGINE_FAILED
