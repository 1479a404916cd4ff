"""The times of all modes of one network, by the harness of `benchmark`: its workers, blocks, statistics and A/A floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddleship.benchmark import system_metrics
from paddleship.benchmark.comparison import AGAIN
from paddleship.benchmark.sampling import Measurement as Timed
from paddleship.benchmark.sampling import Race
from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.config.params import Benchmark, GraphModes
from paddleship.graphmodes.case import Array, Case
from paddleship.graphmodes.subject import batch_of, code_of
from paddleship.shipped.common.preprocess import Batch
from paddleship.system.isolate import Load

_DISTINCT = 64  # batches that are asked in turn
_WARM_UP_S = 2


class Serving:
    """A mode that answers: from host array to host array."""

    def __init__(self, mode: ModeName, case: Case) -> None:
        self._mode = code_of(mode, case)[1](case)
        self._mode.begin_serving()

    def run(self, batch: Batch) -> dict[str, Array]:
        return {"answer": self._mode.forward(batch["inputs"])}


class Training:
    """A mode that trains: a step from host arrays to the loss on the host, which is another one each time."""

    def __init__(self, mode: ModeName, case: Case) -> None:
        self._mode = code_of(mode, case)[1](case)
        self._mode.begin_training()

    def run(self, batch: Batch) -> float:
        loss: float = self._mode.step(batch["inputs"], batch["labels"])
        return loss


def serve(case: Case, modes: Sequence[ModeName], settings: GraphModes, *, say: Callable[[str], None]) -> dict[str, Timed]:
    """Every mode, and the reference a second time under its name with AGAIN: batches (`case.sizes.batch` rows) and single rows."""
    sizes = case.sizes
    return _race(case, Serving, modes, {sizes.batch: sizes.answers, 1: sizes.answers}, settings, say=say)


def train(case: Case, modes: Sequence[ModeName], settings: GraphModes, *, say: Callable[[str], None]) -> dict[str, Timed]:
    """The same of the modes that train, in steps of `case.sizes.batch` rows."""
    trained = [mode for mode in modes if MODES[mode].trains]
    return _race(case, Training, trained, {case.sizes.batch: case.sizes.steps}, settings, say=say)


def _race(
    case: Case, kind: type, modes: Sequence[ModeName], samples: Mapping[int, int], settings: GraphModes, *, say: Callable[[str], None]
) -> dict[str, Timed]:
    """`samples` of each batch size in each block, `settings.rounds` blocks over all starts."""
    batches = {size: _batches(case, size) for size in samples}
    participants: dict[str, Load] = {name: (kind, (mode, case)) for mode in modes for name in _names(mode)}
    harness = Benchmark(samples_per_block=max(samples.values()), warmup_s=_WARM_UP_S, timeout_s=settings.timeout_s)
    cores = system_metrics.cores_for(settings.threads)
    race = Race(participants, batches, harness, thread_count=settings.threads, cores=cores)
    starts = min(settings.starts, settings.rounds)
    for start in range(starts):
        blocks = settings.rounds // starts + (start < settings.rounds % starts)
        race.round(race.left(), blocks=dict.fromkeys(batches, blocks), seconds=dict.fromkeys(batches, settings.timeout_s))
        say(f"{case.network}  {kind.__name__.lower()}, start {start + 1}/{starts}  {len(race.left()) - 1} modes")
    return race.found


def _names(mode: ModeName) -> tuple[str, ...]:
    return (mode, mode + AGAIN) if mode == REFERENCE else (mode,)


def _batches(case: Case, size: int) -> list[dict[str, Any]]:
    inputs, labels = case.rows()
    count = min(_DISTINCT, len(labels) // size)
    pairs = (batch_of(inputs, labels, size, place) for place in range(count))
    return [{"inputs": asked, "labels": wanted} for asked, wanted in pairs]
