"""Hide Prefect's messages about ended runs and failed tasks on the terminal, because `paddleship` prints them itself."""

from __future__ import annotations

import logging

_TASKS, _FLOWS = "prefect.task_runs", "prefect.flow_runs"
_ENDS = ("Finished in state ", "Task run failed with state")


def tell_errors_once() -> None:
    """Hide Prefect's messages about the end of the flow run and of failed tasks on the terminal."""
    import prefect.main  # noqa: F401 it sets up logging

    for handler in logging.getLogger().handlers:
        if not any(isinstance(known, _NotTheEnd) for known in handler.filters):
            handler.addFilter(_NotTheEnd())


class _NotTheEnd(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        tells_end = record.name == _FLOWS or (record.name == _TASKS and record.levelno >= logging.ERROR)
        return not (tells_end and record.getMessage().startswith(_ENDS))
