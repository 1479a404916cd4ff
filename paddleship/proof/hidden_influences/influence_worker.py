"""The eager model in a child process under chosen circumstances."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import numpy as np

from paddleship.errors import ModelError
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof.hidden_influences.execution_environment import Circumstances
from paddleship.proof.hidden_influences.read_audit import Observer
from paddleship.proof.hidden_influences.sources import Read, Setting
from paddleship.proof.hidden_influences.state import State
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays


class InfluenceWorker:
    """Eager float32. What the user's module and the factory read is recorded too."""

    def __init__(self, source_model: SourceModel, setting: Setting) -> None:
        self._real_time = time.perf_counter
        package = (source_model.model.factory or "").partition(":")[0].partition(".")[0]
        self._seen = Circumstances(setting, package=package)
        self._observer = Observer(self._seen)
        self._seen.install()
        self._eager = Eager(source_model)

    def ask(self, inputs: Batch, setting: Setting, observed: bool = False) -> Arrays | str:
        """The answer under these circumstances, with all generators seeded, or the error message. `observed`: watch every call."""
        import paddle

        paddle.seed(0)
        random.seed(0)
        np.random.seed(0)
        self._seen.show(setting)
        self._seen.in_forward = True
        try:
            with self._observer.observed() if observed else nullcontext():
                return self._in_thread(inputs, setting.threads) if setting.threads else self._eager.run(inputs)
        except ModelError as refusal:
            return str(refusal)
        finally:
            self._seen.in_forward = False

    def ask_often(self, inputs: Batch, setting: Setting, calls: int, seconds: float) -> tuple[int, list[str], list[str]]:
        """Call the model again and again.

        Returns the number of calls, the user's lines that change state, and those of state that changes with each call and is read.
        """
        before, end, count = State.of(self._eager.layer), self._real_time() + seconds, 1
        self.ask(inputs, setting)
        settled = State.of(self._eager.layer)  # what only keeps the last answer is the same from here on
        while count < calls and (count == 1 or self._real_time() < end):
            self.ask(inputs, setting)
            count += 1
        after = State.of(self._eager.layer)
        return count, before.changes(after), settled.changes(after, read=True)

    def reads(self) -> list[Read]:
        return list(self._seen.reads)

    def forget(self) -> None:
        self._seen.reads.clear()

    def _in_thread(self, inputs: Batch, others: int) -> Arrays:
        """The answer in another thread, beside idle ones, with as many threads for Paddle's kernels."""
        outcomes: list[Arrays | ModelError] = []

        def run() -> None:
            try:
                outcomes.append(self._eager.run(inputs))
            except ModelError as refusal:
                outcomes.append(refusal)

        with _idle_threads(others), _paddle_threads(others):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        (answer,) = outcomes
        if isinstance(answer, ModelError):
            raise answer
        return answer


@contextmanager
def _idle_threads(count: int) -> Iterator[None]:
    over = threading.Event()
    with ExitStack() as stack:
        for _ in range(count):
            thread = threading.Thread(target=over.wait)
            thread.start()
            stack.callback(thread.join)
        stack.callback(over.set)
        yield


@contextmanager
def _paddle_threads(count: int) -> Iterator[None]:
    import paddle

    flag = "FLAGS_paddle_num_threads"
    before = paddle.get_flags(flag)
    paddle.set_flags({flag: count})
    try:
        yield
    finally:
        paddle.set_flags(before)
