"""What is noted of each request whatever its transport: a line of the log, and a span for a client who records its trace."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from paddleship.shipped.serving.telemetry.logs import FIELDS
from paddleship.shipped.serving.telemetry.spans import Parent, Spans

log = logging.getLogger("paddleship.shipped.serving.requests")  # a line for each request

# https://www.w3.org/TR/trace-context
_TRACE = re.compile(r"00-(?P<trace_id>(?!0{32})[0-9a-f]{32})-(?P<span_id>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")
_RECORDED = 0x01  # of the flags
_MOST_CHARACTERS = 128  # of an id that a client chose
_MOST_OF_ERROR = 500  # which may name what a client chose, such as an input that there is not


class Recorder:
    """Notes requests as the options say. `logs`: in a line of the log; `spans`: to a collector."""

    def __init__(self, *, logs: bool = False, spans: Spans | None = None) -> None:
        self._logs, self._spans = logs, spans

    @property
    def wants(self) -> bool:
        """Whether requests are noted at all."""
        return self._logs or self._spans is not None

    def note(
        self,
        name: str,
        seconds: float,
        measured: Mapping[str, Any],
        attributes: Mapping[str, str | int],
        *,
        request_id: str | None,
        traceparent: str,
        error: str | None,
        is_failure: bool = False,
    ) -> None:
        """Note a request that took so long and ended now.

        `measured` is for the log, `attributes` are those of the span, by OpenTelemetry's names. `is_failure`: the server is to blame.
        """
        trace = _TRACE.fullmatch(traceparent)
        if self._spans is not None and trace and int(trace["flags"], 16) & _RECORDED:
            reason = (error or "")[:_MOST_OF_ERROR] if is_failure else None
            self._spans.add(name, Parent(trace["trace_id"], trace["span_id"]), seconds, attributes, error=reason)
        if self._logs:
            fields = {**measured}
            if request_id:
                fields["request_id"] = request_id[:_MOST_CHARACTERS]
            if trace:
                fields |= {"trace_id": trace["trace_id"], "span_id": trace["span_id"]}
            if error:
                fields["error"] = error[:_MOST_OF_ERROR]
            log.info("%s", name, extra={FIELDS: fields})

    def close(self) -> None:
        """Send the spans that wait."""
        if self._spans is not None:
            self._spans.close()
