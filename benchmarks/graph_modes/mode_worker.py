"""The object in the child process of one mode of one network: build it, answer, train and save."""

from __future__ import annotations

import inspect
import os
import sys
import textwrap
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graph_modes import line_count
from benchmarks.graph_modes.network_setup import Array, NetworkSetup
from paddleship.config.graph_modes import MODES, ModeName
from paddleship.errors import CandidateError

FIRST_STEPS = 3


class ModeWorker:
    """`first` answers and makes the first steps, for the comparison with eager; `train` continues, for the loss curve."""

    def __init__(self, mode: ModeName, setup: NetworkSetup) -> None:
        _pin(setup.threads)
        self._name, self._setup, self._trains = mode, setup, MODES[mode].trains
        self._inputs, self._labels = setup.rows()
        start = time.perf_counter()
        self._module, self._kind = code_of(mode, setup)
        self._import_s = time.perf_counter() - start
        start = time.perf_counter()
        self._mode = self._kind(setup)
        self._build_s = time.perf_counter() - start
        self._place = 0
        self.turn = 0

    def first(self) -> dict[str, Any]:
        """The answer to one batch at the first weights, the losses of the first steps, and the seconds for them."""
        self._mode.begin_serving()
        inputs, _ = self._batch(self._setup.sizes.batch, 0)
        start = time.perf_counter()
        answer = self._mode.forward(inputs)
        facts = {"answer": answer, "import_s": self._import_s, "build_s": self._build_s, "first_answer_s": time.perf_counter() - start}
        steps = self.train(FIRST_STEPS) if self._trains else []
        first_step_s = self._build_s + steps[0][1] / 1e3 if steps else None
        written = line_count.count(self._module.written(self._kind, self._setup))
        facts["version"] = str(sys.modules[MODES[self._name].framework].__version__)
        return {**facts, "losses": [loss for loss, _ in steps], "first_step_s": first_step_s, "lines": written}

    def train(self, count: int) -> list[tuple[float, float]]:
        """Loss and milliseconds of `count` more steps, from arrays on the host to the loss on the host."""
        self._mode.begin_training()
        taken = []
        for _ in range(count):
            inputs, labels = self._batch(self._setup.sizes.batch, self._place)
            self._place += 1
            start = time.perf_counter_ns()
            loss = self._mode.step(inputs, labels)
            taken.append((loss, (time.perf_counter_ns() - start) / 1e6))
        return taken

    def save(self, folder: str) -> dict[str, Any]:
        """Save the deployed form. Returns the source that loads it, an input and this mode's answer."""
        self._mode.begin_serving()
        asked, _ = self._batch(self._setup.sizes.batch, 0)
        expected = self._mode.forward(asked)
        self._mode.save(Path(folder), asked)
        loader: Callable[[str], Any] = self._module.LOADERS[self._kind]
        source = "from typing import Any\n\n" + textwrap.dedent(inspect.getsource(loader))
        return {"loader": source, "name": loader.__name__, "asked": asked, "expected": expected}

    def _batch(self, size: int, place: int) -> tuple[Array, Array]:
        inputs, labels = batch_of(self._inputs, self._labels, size, place)
        return (np.roll(inputs, self.turn, axis=0), np.roll(labels, self.turn, axis=0)) if self.turn else (inputs, labels)


def code_of(mode: ModeName, setup: NetworkSetup) -> tuple[Any, Any]:
    """The module and the class of a mode. Raises CandidateError if its framework is not installed."""
    if setup.torch_site and MODES[mode].framework == "torch":
        sys.path.append(setup.torch_site)
    module, kind = MODES[mode].code.split(":")
    imported = _imported(module)
    return imported, getattr(imported, kind)


def batch_of(inputs: Array, labels: Array, size: int, place: int) -> tuple[Array, Array]:
    """The inputs and labels of one batch; after the last row, the first one follows."""
    start = place * size % (len(labels) - size + 1)
    return inputs[start : start + size], labels[start : start + size]


def _imported(module: str) -> Any:
    """Raises CandidateError if the framework is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise CandidateError("PyTorch is not installed here: pip install 'paddleship[torch]', or name graph_modes.torch_site") from None


def _pin(threads: int) -> None:
    """Pin this process to as many cores as it has threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def answer_of(mode: ModeName, setup: NetworkSetup) -> dict[str, Any]:
    """Answers and first losses, from a process that ends afterwards."""
    facts = ModeWorker(mode, setup).first()
    return {"answer": np.asarray(facts["answer"]), "losses": facts["losses"]}


def losses_of(mode: ModeName, setup: NetworkSetup, turn: int) -> list[float]:
    """First losses with the rows of every batch in another order, which changes only the rounding."""
    worker = ModeWorker(mode, setup)
    worker.turn = turn
    return [loss for loss, _ in worker.train(FIRST_STEPS)]
