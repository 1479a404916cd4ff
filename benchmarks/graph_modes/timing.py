"""Time all modes of one network with the code of `benchmark`: its workers, blocks, statistics and A/A ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.graph_modes.mode_worker import batch_of, code_of
from benchmarks.graph_modes.network_setup import Array, NetworkSetup
from paddleship.benchmark import system_metrics
from paddleship.benchmark.comparison import AGAIN
from paddleship.benchmark.sampling import Measurement, Sampler
from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.config.sections.benchmark import Benchmark
from paddleship.config.sections.graph_modes import GraphModes
from paddleship.shipped.computing.preprocess import Batch
from paddleship.system.isolate import Factory

_DISTINCT = 64  # different batches that are asked in turn
_WARM_UP_S = 2


class Serving:
    """A mode in inference: from array on the host to array on the host."""

    def __init__(self, mode: ModeName, setup: NetworkSetup) -> None:
        self._mode = code_of(mode, setup)[1](setup)
        self._mode.begin_serving()

    def run(self, batch: Batch) -> dict[str, Array]:
        return {"answer": self._mode.forward(batch["inputs"])}


class Training:
    """A mode in training: a step from arrays on the host to the loss on the host, which differs at every step."""

    def __init__(self, mode: ModeName, setup: NetworkSetup) -> None:
        self._mode = code_of(mode, setup)[1](setup)
        self._mode.begin_training()

    def run(self, batch: Batch) -> float:
        loss: float = self._mode.step(batch["inputs"], batch["labels"])
        return loss


def serve(setup: NetworkSetup, modes: Sequence[ModeName], settings: GraphModes, *, say: Callable[[str], None]) -> dict[str, Measurement]:
    """Time every mode, and the reference again under its name with AGAIN: batches (`setup.sizes.batch` rows) and single rows."""
    sizes = setup.sizes
    return _measure(setup, Serving, modes, {sizes.batch: sizes.answers, 1: sizes.answers}, settings, say=say)


def train(setup: NetworkSetup, modes: Sequence[ModeName], settings: GraphModes, *, say: Callable[[str], None]) -> dict[str, Measurement]:
    """Time the modes that train, in steps of `setup.sizes.batch` rows."""
    trained = [mode for mode in modes if MODES[mode].trains]
    return _measure(setup, Training, trained, {setup.sizes.batch: setup.sizes.steps}, settings, say=say)


def _measure(
    setup: NetworkSetup,
    kind: type,
    modes: Sequence[ModeName],
    samples: Mapping[int, int],
    settings: GraphModes,
    *,
    say: Callable[[str], None],
) -> dict[str, Measurement]:
    """Measure `samples` of each batch size in each block, in `settings.rounds` blocks over all starts."""
    batches = {size: _batches(setup, size) for size in samples}
    participants: dict[str, Factory] = {name: (kind, (mode, setup)) for mode in modes for name in _names(mode)}
    harness = Benchmark(samples_per_block=max(samples.values()), warmup_s=_WARM_UP_S, timeout_s=settings.timeout_s)
    cores = system_metrics.cores_for(settings.threads)
    sampler = Sampler(participants, batches, harness, thread_count=settings.threads, cores=cores)
    starts = min(settings.starts, settings.rounds)
    for start in range(starts):
        blocks = settings.rounds // starts + (start < settings.rounds % starts)
        sampler.round(sampler.left(), blocks=dict.fromkeys(batches, blocks), seconds=dict.fromkeys(batches, settings.timeout_s))
        say(f"{setup.network}  {kind.__name__.lower()}, start {start + 1}/{starts}  {len(sampler.left()) - 1} modes")
    return sampler.measurements


def _names(mode: ModeName) -> tuple[str, ...]:
    return (mode, mode + AGAIN) if mode == REFERENCE else (mode,)


def _batches(setup: NetworkSetup, size: int) -> list[dict[str, Any]]:
    inputs, labels = setup.rows()
    count = min(_DISTINCT, len(labels) // size)
    pairs = (batch_of(inputs, labels, size, place) for place in range(count))
    return [{"inputs": asked, "labels": wanted} for asked, wanted in pairs]
