"""What the log says of a request whatever its transport: its id, the trace that it belongs to, and why it has no answer."""

from __future__ import annotations

import logging
import re

log = logging.getLogger("paddleship.shipped.serving.requests")  # a line for each request

_TRACE = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")  # https://www.w3.org/TR/trace-context
_MOST_CHARACTERS = 128  # of an id that a client chose
_MOST_OF_ERROR = 500  # which may name what a client chose, such as an input that there is not


def fields(*, request_id: str | None, traceparent: str, error: str | None) -> dict[str, str]:
    """The id that the client gave, `trace_id` and `span_id` of its trace, and the error; without what there is not."""
    found: dict[str, str] = {}
    if request_id:
        found["request_id"] = request_id[:_MOST_CHARACTERS]
    if trace := _TRACE.fullmatch(traceparent):
        found |= {"trace_id": trace[1], "span_id": trace[2]}
    if error:
        found["error"] = error[:_MOST_OF_ERROR]
    return found
