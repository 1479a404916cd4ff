"""What all transports of a process share: the model, the one thread that it runs on, and the memory for requests.

A runtime must be used by one thread at a time and may hold the GIL while it runs. So all inference of a process runs in one
separate thread, and the threads of transports stay free for health checks. Scale by processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum
from typing import TypeVar

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.model import ServedModel

log = logging.getLogger("paddleship.shipped.serving")

T = TypeVar("T")


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILING = "failing"  # the input of a request does not explain its failure, and the model has not answered a known batch since
    STOPPING = "stopping"


class Service:
    """One model that `load` returns, its inference thread and the budget. `failure` is why the model could not be loaded."""

    def __init__(self, load: Callable[[], ServedModel], budget: Budget) -> None:
        self.budget = budget
        self.failure: BaseException | None = None
        self._model: ServedModel | None = None
        self._load, self._stopping = load, False
        self._thread = runtimes.inference_thread()

    @property
    def state(self) -> State:
        if self._stopping:
            return State.STOPPING
        if self._model is None:
            return State.LOADING
        return State.READY if self._model.answers else State.FAILING

    def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Load the model in the background; if that fails, `on_failure` is called with the reason, on the inference thread."""
        self._thread.submit(self._make_ready, on_failure)

    def close(self) -> None:
        """Finish the work that was submitted, and accept no more."""
        self._stopping = True
        self._thread.shutdown()
        if self._model is not None:
            self._model.close()

    def model(self, name: str, version: str | None = None) -> ServedModel:
        """The model of this name and version. Raises ServingError (NOT_READY, UNKNOWN_MODEL)."""
        if self._model is None:
            raise ServingError(Kind.NOT_READY, "the model is still loading")
        ours = self._model.candidate.model
        if name != ours:
            raise ServingError(Kind.UNKNOWN_MODEL, f"there is no model {name!r}: this server has {ours!r}")
        if version not in (None, self._model.version):
            raise ServingError(Kind.UNKNOWN_MODEL, f"there is no version {version!r} of {name!r}: this server has {self._model.version!r}")
        return self._model

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run the work of a request on the inference thread: decode it, predict, encode the answer.

        So one request at a time is decoded, which bounds the memory for that. Cancel the future if the client disconnects: work that has
        not started is then not done. Raises ServingError (STOPPING).
        """
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: send the request to another one")
        return self._thread.submit(work)

    def probe(self) -> Future[None]:
        """Ask a failing model a known batch; if it answers as before, the service is ready again."""
        return self.submit(self._probe)

    def _probe(self) -> None:
        if self._model is not None:
            self._model.probe()

    def _make_ready(self, on_failure: Callable[[BaseException], None]) -> None:
        try:
            model = self._load()
            model.warm_up()
        except BaseException as failure:
            if not isinstance(failure, PaddleshipError):
                log.exception("the model cannot be loaded")
            self.failure = failure
            on_failure(failure)
            return
        log.info("ready: %s in %s", model.candidate.model, model.candidate.runtime)
        self._model = model
