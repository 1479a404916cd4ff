"""What all transports of a process share: the model, the one thread that it runs on, and the memory for requests.

A runtime must be used by one thread at a time and may hold the GIL while it runs. So all inference of a process runs in one
separate thread, and the threads of transports stay free for health checks. What comes meanwhile waits, and is answered together. Only a
model that answers in well under a millisecond, less than a change of threads costs, answers on the thread of the transport. Scale by
processes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.serving.batching import Answering, Request
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.settings import Settings

log = logging.getLogger("paddleship.shipped.serving")

_QUICK_BYTES, _QUICK_REQUESTS = 2**11, 32  # of a request that a transport answers on its thread, and how many of them in one turn
_SLOW_S, _MOST_SLOW, _LOOKED_AT = 0.005, 3, 64  # after so many slow turns of the last ones, the model has its own thread
_QUICK_AGAIN_S = 30.0  # for so long


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILING = "failing"  # the input of a request does not explain its failure, and the model has not answered a known batch since
    STOPPING = "stopping"


_ALONE = Settings()


class Service:
    """One model that `load` returns, its inference thread and the budget. `failure` is why the model could not be loaded.

    `settings` say whether several requests may share a batch.
    """

    def __init__(self, load: Callable[[], ServedModel], budget: Budget, settings: Settings = _ALONE) -> None:
        self.budget = budget
        self.failure: BaseException | None = None
        self._model: ServedModel | None = None
        self._answering: Answering  # once the model is ready, and there are no requests before
        self._load, self._settings, self._stopping = load, settings, False
        self._thread = runtimes.inference_thread()
        self._waiting: deque[Request] = deque()
        self._in_thread = False
        self._slow: deque[bool] = deque(maxlen=_LOOKED_AT)
        self._quick_from = math.inf
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self.before_ready: list[Callable[[ServedModel], None]] = []  # called on the inference thread with the loaded model

    @property
    def batching(self) -> bool:
        """Whether requests of this model share batches; only once it is ready."""
        return self._answering.batching

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
        with self._lock:
            self._stopping = True
        self._thread.shutdown()
        if self._model is not None:
            self._model.close()

    def model(self, name: str, version: str | None = None) -> ServedModel:
        """The model of this name and version. Raises ServingError (NOT_READY, UNKNOWN_MODEL)."""
        model = self.loaded()
        ours = model.candidate.model
        if name != ours:
            raise ServingError(Kind.UNKNOWN_MODEL, f"there is no model {name!r}: this server has {ours!r}")
        if version not in (None, model.version):
            raise ServingError(Kind.UNKNOWN_MODEL, f"there is no version {version!r} of {name!r}: this server has {model.version!r}")
        return model

    def loaded(self) -> ServedModel:
        """The one model of this server. Raises ServingError (NOT_READY)."""
        if self._model is None:
            raise ServingError(Kind.NOT_READY, "the model is still loading")
        return self._model

    def index(self, *, only_ready: bool) -> list[dict[str, str]]:
        """The index of a model repository, which holds the one model; empty if only a ready one is asked for. Raises ServingError."""
        model, ready = self.loaded(), self.state is State.READY
        reason = "" if ready else "the model does not answer a known batch as before"
        entry = {"name": model.candidate.model, "version": model.version, "state": "READY" if ready else "UNAVAILABLE", "reason": reason}
        return [] if only_ready and not ready else [entry]

    def ask(self, request: Request) -> None:
        """Let a request wait until `answer_waiting`, which the transport calls when it has put all that came together.

        Raises ServingError (STOPPING).
        """
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: send the request to another one")
        self._waiting.append(request)

    def answer_waiting(self) -> bool:
        """Answer some of what waits now if the model is quick, else all of it on the inference thread.

        Whether a further call is needed for the rest.
        """
        if self._is_quick() and self._turn.acquire(blocking=False):
            try:
                self._answer_quickly()
            finally:
                self._turn.release()
            return bool(self._waiting)
        with self._lock:
            if self._waiting and not self._in_thread:
                self._in_thread = True
                self._thread.submit(self._answer_in_thread)
        return False

    def probe(self) -> Future[None]:
        """Ask a failing model a known batch; if it answers as before, the service is ready again. Raises ServingError (STOPPING)."""
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: ask another one")
        return self._thread.submit(self._probe)

    def _is_quick(self) -> bool:
        """Whether the request that has waited longest may be answered on the thread of the transport."""
        if self._in_thread or not self._waiting or self._waiting[0].size > _QUICK_BYTES:
            return False
        return time.perf_counter() >= self._quick_from

    def _answer_quickly(self) -> None:
        begun, requests = time.perf_counter(), deque[Request]()
        while self._waiting and len(requests) < _QUICK_REQUESTS and self._waiting[0].size <= _QUICK_BYTES:
            requests.append(self._waiting.popleft())
        self._answering.answer(requests)
        self._slow.append(time.perf_counter() - begun > _SLOW_S)
        if self._slow[-1] and sum(self._slow) >= _MOST_SLOW:
            self._slow.clear()
            self._quick_from = begun + _QUICK_AGAIN_S
            log.info("requests took more than %g ms: the model answers on a thread of its own for %g s", 1000 * _SLOW_S, _QUICK_AGAIN_S)

    def _answer_in_thread(self) -> None:
        """Answer what waits by now, and come back later for more, so that a probe has its turn; at the end, answer all."""
        while True:
            with self._turn:
                self._answering.answer(deque(self._waiting.popleft() for _ in range(len(self._waiting))))
            with self._lock:
                self._in_thread = bool(self._waiting)
                if self._in_thread and not self._stopping:
                    self._thread.submit(self._answer_in_thread)
                if not self._in_thread or not self._stopping:
                    return

    def _probe(self) -> None:
        if self._model is not None:
            with self._turn:
                self._model.probe()

    def _make_ready(self, on_failure: Callable[[BaseException], None]) -> None:
        try:
            model = self._load()
            model.warm_up()
            for prepare in self.before_ready:
                prepare(model)
        except BaseException as failure:
            if not isinstance(failure, PaddleshipError):
                log.exception("the model cannot be loaded")
            self.failure = failure
            on_failure(failure)
            return
        self._answering = Answering(model, self._settings)
        self._quick_from = 0.0 if model.is_quick else math.inf
        self._model = model
        log.info("ready: %s in %s", model.candidate.model, model.candidate.runtime)
