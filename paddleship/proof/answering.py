"""The models under test, each in a worker process."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from paddleship.errors import BadInput, OutOfTime
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import mapped_libraries
from paddleship.system.deadline import with_deadline
from paddleship.system.isolate import Isolated, threads
from paddleship.system.progress import Progress


class Caller(Protocol):
    """Calls methods of an object, which may be in another process."""

    def call(self, method: str, *arguments: Any) -> Any: ...


@dataclass(frozen=True)
class ModelUnderTest:
    """What answers in a worker process: `load(*arguments)` returns a Runtime there, `share()` lets threads share it.

    `exact`: it is the exported program on eager's own kernels, so its answers are eager's own. `runtime` is the name of the registered one.
    """

    load: Callable[..., Any]
    arguments: tuple[Any, ...]
    precision: str = "float32"
    thread_count: int = 1
    share: Callable[[], Executor] = runtimes.inference_thread
    exact: bool = False
    runtime: str = ""

    @property
    def has_optional_libraries(self) -> bool:
        return bool(self.runtime and registry.get(self.runtime).registration.optional_libraries)


def candidate(folder: Path, *, precision: str = "float32", thread_count: int = 1) -> ModelUnderTest:
    """The candidate in `folder` as a model under test."""
    made = Candidate.load(folder)
    exact = registry.kind_of(made).exact and precision == "float32" and thread_count == 1
    return ModelUnderTest(runtimes.load, (folder,), precision, thread_count, exact=exact, runtime=made.runtime)


class AnswerWorker:
    """The object in the worker process: one model under test, asked by one caller or by several at the same time."""

    def __init__(self, model_under_test: ModelUnderTest) -> None:
        self._model = model_under_test.load(*model_under_test.arguments)
        self._share = model_under_test.share
        self._runtime = model_under_test.runtime

    def run(self, inputs: Batch) -> Arrays:
        answer: Arrays = self._model.run(inputs)
        return answer

    def mapped_libraries(self) -> list[str]:
        """The optional libraries that the runtime has mapped by now. The last call: it may release what later ones would need."""
        registration = registry.get(self._runtime).registration
        if registration.release_preloaded is not None:
            registration.release_preloaded()
        return mapped_libraries.of_this_process(registration.optional_libraries)

    def together(self, batches: Sequence[Batch], callers: int) -> list[list[Arrays]]:
        """The answers to the batches for each of several concurrent callers, each starting with another batch."""
        shared = self._share()
        answers: list[list[Arrays]] = [[{} for _ in batches] for _ in range(callers)]
        start = threading.Barrier(callers)

        def ask(caller: int) -> None:
            start.wait()
            for step in range(len(batches)):
                index = (caller + step) % len(batches)
                answers[caller][index] = shared.submit(self._model.run, batches[index]).result()

        running = [threading.Thread(target=ask, args=(caller,)) for caller in range(callers)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        shared.shutdown()
        return answers


class Queue:
    """Models under test in order, each with its process or the reason why it has none; the next one loads while one is asked."""

    def __init__(self, order: Sequence[tuple[str, ModelUnderTest]], *, timeout_s: float) -> None:
        self._order, self._timeout_s = order, timeout_s
        self._starter = ThreadPoolExecutor(1)
        self._loading: deque[Future[Isolated | BadInput]] = deque()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        for loading in self._loading:
            with suppress(OutOfTime):
                if isinstance(child := loading.result(), Isolated):
                    child.close()
        self._starter.shutdown()

    def __iter__(self) -> Iterator[tuple[str, ModelUnderTest, Isolated | BadInput]]:
        self._start(0)
        for index, (name, model_under_test) in enumerate(self._order):
            child = self._loading.popleft().result()
            self._start(index + 1)
            yield name, model_under_test, child

    def _start(self, index: int) -> None:
        if index < len(self._order):
            self._loading.append(self._starter.submit(with_deadline(self._load), *self._order[index]))

    def _load(self, name: str, model_under_test: ModelUnderTest) -> Isolated | BadInput:
        try:
            return Isolated(
                name, AnswerWorker, model_under_test, timeout_s=self._timeout_s, environment=threads(model_under_test.thread_count)
            )
        except BadInput as error:
            return error


@dataclass(frozen=True)
class Answered:
    """The answers to all cases, or what the child returns in place of one, and the seconds that each took."""

    answers: list[Any]
    seconds: list[float]


def ask(name: str, child: Caller, cases: Sequence[Case]) -> Answered:
    """Ask a child all cases."""
    progress = Progress(f"{name}: answering", len(cases), "batches")
    answered = Answered([], [])
    for case in cases:
        began = time.monotonic()
        answered.answers.append(child.call("run", case.inputs))
        answered.seconds.append(time.monotonic() - began)
        progress.advance()
    return answered
