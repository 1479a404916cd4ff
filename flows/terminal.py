"""What of Prefect's own words a person at the terminal sees: not how a run or a failed task ended, which `paddleship` tells itself."""

from __future__ import annotations

import logging

_TASKS, _FLOWS = "prefect.task_runs", "prefect.flow_runs"
_END = "Finished in state "


def tell_errors_once() -> None:
    """Keep from the terminal how the flow run and its failed tasks ended; Prefect's pages show it as before. After Prefect is imported."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(known, _NotTheEnd) for known in handler.filters):
            handler.addFilter(_NotTheEnd())


class _NotTheEnd(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        tells_end = record.name == _FLOWS or (record.name == _TASKS and record.levelno >= logging.ERROR)
        return not (tells_end and record.getMessage().startswith(_END))
