"""Spans of requests for a collector of OpenTelemetry, over HTTP as JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp.

Only requests whose client records its trace have one, as a child of the client's span. OpenTelemetry's SDK would bring a dozen packages
into the image for the same messages.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from paddleship import __version__
from paddleship.errors import BadInput

log = logging.getLogger("paddleship.shipped.serving")

_PATH = "/v1/traces"
_MOST_WAITING, _EVERY_S, _TIMEOUT_S = 2048, 1.0, 5.0
_MOST_CHARACTERS = 128  # of what a client chose
_SERVER, _ERROR = 2, 2  # SPAN_KIND_SERVER, STATUS_CODE_ERROR


class Parent(NamedTuple):
    """The span of the client, in hexadecimal digits."""

    trace_id: str
    span_id: str


class Spans:
    """Sends spans once a second, from a thread of its own; more than wait at a time are lost, and so are those of a failed attempt."""

    def __init__(self, endpoint: str, resource: Callable[[], Mapping[str, str]]) -> None:
        """`endpoint` is the address of the collector; `resource` says what server this is, when spans are sent. Raises BadInput."""
        import http.client  # which servers without a collector do not need

        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        try:
            address = urlsplit(endpoint)
            self._connection = kinds[address.scheme](address.hostname or "", address.port, timeout=_TIMEOUT_S)
        except (KeyError, ValueError):
            address = urlsplit("")
        if not address.hostname:
            raise BadInput(f"the collector {endpoint!r} is no address: give one such as http://collector:4318")
        self._endpoint, self._resource, self._path = endpoint, resource, address.path.rstrip("/") + _PATH
        self._waiting: deque[dict[str, Any]] = deque()
        self._closing, self._thread = threading.Event(), threading.Thread(target=self._send_all, name="spans", daemon=True)
        self._has_begun, self._is_reached = False, True

    def add(self, name: str, parent: Parent, seconds: float, attributes: Mapping[str, str | int], *, error: str | None) -> None:
        """Send a span that took so long and ended now, soon; with an error, the request failed. From one thread."""
        if len(self._waiting) >= _MOST_WAITING:
            return
        ended = time.time_ns()
        span = {"traceId": parent.trace_id, "spanId": secrets.token_hex(8), "parentSpanId": parent.span_id, "kind": _SERVER}
        span |= {
            "name": name[:_MOST_CHARACTERS],
            "startTimeUnixNano": str(ended - int(1e9 * seconds)),
            "endTimeUnixNano": str(ended),
            "attributes": _attributes(attributes),
        }
        self._waiting.append(span if error is None else span | {"status": {"code": _ERROR, "message": error}})
        if not self._has_begun and not self._closing.is_set():
            self._has_begun = True
            self._thread.start()

    def close(self) -> None:
        """Send what waits, and no more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT_S)

    def _send_all(self) -> None:
        while not self._closing.wait(_EVERY_S):
            self._send_waiting()
        self._send_waiting()

    def _send_waiting(self) -> None:
        """Send the spans that wait; whether the collector takes them is logged when it changes."""
        spans = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not spans:
            return
        scope = {"name": "paddleship", "version": __version__}
        sent = {"resource": {"attributes": _attributes(self._resource())}, "scopeSpans": [{"scope": scope, "spans": spans}]}
        if (reason := self._post(orjson.dumps({"resourceSpans": [sent]}))) and self._is_reached:
            log.warning("the collector %s takes no spans (%s): those of these requests are lost", self._endpoint, reason)
        elif not reason and not self._is_reached:
            log.info("the collector %s takes spans again", self._endpoint)
        self._is_reached = not reason

    def _post(self, body: bytes) -> str:
        """Why the collector does not take this; empty if it does."""
        import http.client

        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            self._connection.close()  # until the next time, the collector may have closed it
        return "" if answer.status < 300 else f"status {answer.status}"


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(one)} if isinstance(one, int) else {"stringValue": one[:_MOST_CHARACTERS]}}
        for key, one in values.items()
    ]
