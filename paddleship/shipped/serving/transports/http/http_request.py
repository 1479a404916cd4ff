"""One request over HTTP, from its body to the future of its answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddleship.errors import RequestError
from paddleship.shipped.serving import time_limits
from paddleship.shipped.serving.asking import PendingAnswer
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.transports.http.bodies import Body
from paddleship.shipped.serving.transports.http.inference import JsonModel
from paddleship.shipped.serving.transports.http.outputs import Wanted

ASKED = "paddleship.asked"  # in the scope of a request: its HttpRequest


class HttpRequest(PendingAnswer):
    """One request: its body, and the future of its answer. `number` is the id in its body, once that is decoded."""

    def __init__(
        self,
        model: JsonModel,
        body: Body,
        *,
        is_gone: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        arrived: float = 0.0,
        deadline: float = math.inf,
    ) -> None:
        super().__init__(loop, arrived=arrived, deadline=deadline)
        self._model, self._body, self.is_gone = model, body, is_gone
        self.number: str | None = None
        self._wanted = Wanted()
        self.json_bytes: int | None = None  # of an answer with binary tensors

    @property
    def size(self) -> int:
        return self._body.size

    def decode(self) -> Columns:
        """The columns of the body, JSON or the value of the one column of the model. Raises RequestError, and ServingError (EXPIRED)."""
        try:
            return self._columns()
        except RecursionError:  # of reading a value, or of naming it in an error
            raise RequestError("the request is nested too deeply to be read: send flat data") from None

    def _columns(self) -> Columns:
        if self._body.raw:
            return self._model.columns_of_raw(self._body.content)
        request = self._model.parse(self._body.content)
        columns = self._model.columns(request, self._body.binary)
        if isinstance(parameters := request.get("parameters"), dict):
            time_limits.check(parameters.get("timeout", 0), self.arrived)
        self.number, self._wanted = request.get("id"), self._model.wanted(request)
        return columns

    def encode(self, outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]]) -> bytes:
        """The answer in the form that the request asks for. Raises ServingError."""
        content, self.json_bytes = self._model.reply(outputs, cuts, number=self.number, wanted=self._wanted)
        return content
