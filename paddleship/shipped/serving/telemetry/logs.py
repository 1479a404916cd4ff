"""The lines of the log: text for people, or JSON with a line for each request too."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

FIELDS = "fields"  # of a record: what is to be in its JSON beside the message
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields of the record, and the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure(form: Format) -> None:
    """Send the log to standard error in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form is Format.JSON else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
