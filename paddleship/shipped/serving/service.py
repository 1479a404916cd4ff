"""What all transports of a process share: the model, the one thread that it runs on, and the memory for requests.

A runtime must be used by one thread at a time and may hold the GIL while it runs. So all inference of a process runs in one
separate thread, and the threads of transports stay free for health checks. What comes meanwhile waits, and is answered together. Only a
model that answers in well under a millisecond, less than a change of threads costs, answers on the thread of the transport. What waits is
bounded, and what would wait too long is refused at once. Scale by processes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum

from paddleship.errors import PaddleshipError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.batching import Answering, Request
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.clients import Clients
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.processes.peers import Peers
from paddleship.shipped.serving.queueing import Queue, Turn
from paddleship.shipped.serving.settings import Settings
from paddleship.shipped.serving.stages import Stages
from paddleship.shipped.serving.telemetry.recording import Recorder
from paddleship.shipped.serving.telemetry.spans import Spans

log = logging.getLogger("paddleship.shipped.serving")

_QUICK_REQUESTS = 32  # small ones that a transport answers on its thread in one turn
_SLOW_S, _MOST_SLOW, _LOOKED_AT = 0.005, 3, 64  # after so many slow turns of the last ones, the model has its own thread
_QUICK_AGAIN_S = 30.0  # for so long


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILING = "failing"  # the input of a request does not explain its failure, and the model has not answered a known batch since
    STOPPING = "stopping"


_ALONE, _OPEN = Settings(), Options()
_MOST_WAITING, _LONGEST_S = 1024, 30.0  # requests of about one size, and their time in the server if the image has no objective
_SLO_SHARE = 0.5  # of the objective that the model and the queue may take; the rest is for the connection, and for estimates that are wrong


class Service:
    """One model that `load` returns, its inference thread and the budget. `failure` is why the model could not be loaded.

    `settings` say whether several requests may share a batch, and how long one may take; `options` are for transports. `stages` counts how
    long requests took, and `failures`, in which transports count, why others got no answer. `peers` are the other processes of the server.
    """

    def __init__(
        self,
        load: Callable[[], ServedModel],
        budget: Budget,
        settings: Settings = _ALONE,
        options: Options = _OPEN,
        peers: Peers | None = None,
    ) -> None:
        self.budget, self.options, self.peers = budget, options, peers
        self.clients = Clients(options.requests_per_client, options.tokens) if options.requests_per_client is not None else None
        self.failure: BaseException | None = None
        self._model: ServedModel | None = None
        self._answering: Answering  # once the model is ready, and there are no requests before
        spans = Spans(options.collector, self._resource) if options.collector is not None else None
        self.recorder = Recorder(logs=options.logs_requests, spans=spans)
        self._load, self._settings, self._stopping = load, settings, False
        self._thread = runtimes.inference_thread()
        longest_s = _SLO_SHARE * settings.slo_p99_ms / 1000 if settings.slo_p99_ms else _LONGEST_S
        self.queue, self.stages, self.failures = Queue(most=_MOST_WAITING, longest_s=longest_s), Stages(), Counter[Kind]()
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
    def candidate(self) -> Candidate | None:
        """What is served; None as long as it is loading."""
        return self._model.candidate if self._model is not None else None

    @property
    def state(self) -> State:
        """That of the server: if it has several processes, it begins to be ready once all are, and fails where one of them does.

        A process that is being replaced changes nothing, because its requests go to the others.
        """
        own = self.own_state
        if own is State.READY and self.peers is not None and self.peers.are_starting:
            return State.LOADING
        return State.FAILING if own is State.READY and self.peers is not None and self.peers.are_failing else own

    @property
    def own_state(self) -> State:
        """That of this process."""
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
        self.recorder.close()

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
        model, ready = self.loaded(), self.own_state is State.READY
        reason = "" if ready else "the model does not answer a known batch as before"
        entry = {"name": model.candidate.model, "version": model.version, "state": "READY" if ready else "UNAVAILABLE", "reason": reason}
        return [] if only_ready and not ready else [entry]

    def ask(self, request: Request) -> None:
        """Let a request wait until `answer_waiting`, which the transport calls when it has put all that came together.

        Raises ServingError (STOPPING, or BUSY for one that would wait too long).
        """
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: send the request to another one")
        self.queue.put(request)

    @property
    def crowded(self) -> bool:
        """Whether a further request may be refused, because others have no answer yet."""
        return self.queue.pending > 0

    def refusal(self, size: int) -> ServingError | None:
        """Why a request of so many bytes has no place in the queue now, counted as a failure; None if it has one."""
        if failure := self.queue.refusal(size):
            self.failures[failure.kind] += 1
        return failure

    def answer_waiting(self) -> bool:
        """Answer some of what waits now if the model is quick, else all of it on the inference thread.

        Whether a further call is needed for the rest.
        """
        if self._is_quick() and self._turn.acquire(blocking=False):
            try:
                self._answer_quickly()
            finally:
                self._turn.release()
            return self.queue.waiting > 0
        with self._lock:
            if self.queue.waiting and not self._in_thread:
                self._in_thread = True
                self._thread.submit(self._answer_in_thread)
        return False

    def probe(self) -> Future[None]:
        """Ask a failing model a known batch; if it answers as before, the service is ready again. Raises ServingError (STOPPING)."""
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: ask another one")
        return self._thread.submit(self._probe)

    def _resource(self) -> dict[str, str]:
        """What this server is, by OpenTelemetry's names."""
        if self._model is None:
            return {"service.name": self.options.service_name or "paddleship"}
        return {"service.name": self.options.service_name or self._model.candidate.model, "service.version": self._model.version}

    def _is_quick(self) -> bool:
        """Whether small requests may be answered on the thread of the transport."""
        return not self._in_thread and self.queue.has_small and time.perf_counter() >= self._quick_from

    def _answer_quickly(self) -> None:
        if (turn := self.queue.take_small(_QUICK_REQUESTS)) is None:
            return
        used_s = time.thread_time()  # a machine that is busy with other work makes no model slow
        if self.queue.waiting:
            self._answer(turn)
        else:  # nobody is to be refused, so there is nothing to learn
            self._answering.answer(turn.requests)
            self.queue.finish(turn)
        self._slow.append(time.thread_time() - used_s > _SLOW_S)
        if self._slow[-1] and sum(self._slow) >= _MOST_SLOW:
            self._slow.clear()
            self._quick_from = time.perf_counter() + _QUICK_AGAIN_S
            log.info("requests took more than %g ms: the model answers on a thread of its own for %g s", 1000 * _SLOW_S, _QUICK_AGAIN_S)

    def _answer_in_thread(self) -> None:
        """Answer one turn of what waits, and come back later for more, so that a probe has its turn; at the end, answer all."""
        rows = self._answering.model.limits.max_batch if self.batching else 1
        while True:
            with self._turn:
                if turn := self.queue.take(rows=rows):
                    self._answer(turn)
            with self._lock:
                self._in_thread = self.queue.waiting > 0
                if self._in_thread and not self._stopping:
                    self._thread.submit(self._answer_in_thread)
                if not self._in_thread or not self._stopping:
                    return

    def _answer(self, turn: Turn) -> None:
        """Answer the requests of a turn, and learn how long it took."""
        begun, stages = time.perf_counter(), self.stages
        turn.computed, turn.rows = -stages.requests, -stages.rows
        self._answering.answer(turn.requests)
        turn.computed += stages.requests
        turn.rows += stages.rows
        self.queue.learn(turn, time.perf_counter() - begun)

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
        self._answering = Answering(model, self._settings, self.stages)
        self._quick_from = 0.0 if model.is_quick else math.inf
        self._model = model
        log.info("ready: %s in %s", model.candidate.model, model.candidate.runtime)
