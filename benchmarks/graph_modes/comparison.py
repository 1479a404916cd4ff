"""Run all modes of one network: each in a process of its own, compared with eager, then timed by the code of `benchmark`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graph_modes import agreement, deploying, mode_worker, timing
from benchmarks.graph_modes.mode_worker import ModeWorker
from benchmarks.graph_modes.network_setup import NetworkSetup, truth_of
from paddleship.benchmark.comparison import AGAIN
from paddleship.benchmark.sampling import Measurement, speedup
from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.config.sections.graph_modes import GraphModes
from paddleship.errors import BadInput, ModelError
from paddleship.statistics.estimates import Interval
from paddleship.system import isolate
from paddleship.system.isolate import Isolated

QUANTITIES = ("step_ms", "forward_ms", "request_ms")


@dataclass
class ModeResult:
    """The measurements of one mode of one network; `reason` says why it was not timed.

    `timed` holds, by quantity, the measurement and its batch size; `aa_ratio` the ratio of the reference to its second process, empty for
    every other mode.
    """

    mode: ModeName
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    timed: dict[str, tuple[Measurement, int]] = field(default_factory=dict)
    aa_ratio: dict[str, Interval] = field(default_factory=dict)
    deploys: bool | None = None
    deploys_reason: str = ""

    @property
    def measured(self) -> bool:
        return not self.reason

    @property
    def peak_memory_bytes(self) -> int | None:
        """The larger of the two processes' peaks."""
        return max((timed.peak_memory_bytes for timed, _ in self.timed.values()), default=None)

    def blocks(self, quantity: str) -> list[list[float]]:
        """The samples of each block in ms."""
        timed, size = self.timed.get(quantity, (None, 0))
        return [list(block.samples) for block in timed.counted.get(size, ())] if timed else []

    def median(self, quantity: str) -> float | None:
        samples = [sample for block in self.blocks(quantity) for sample in block]
        return float(np.median(samples)) if samples else None


def compare(
    setup: NetworkSetup,
    modes: Sequence[ModeName],
    settings: GraphModes,
    *,
    say: Callable[[str], None],
    setups: Callable[[ModeName], NetworkSetup] | None = None,
) -> dict[ModeName, ModeResult]:
    """Measure every mode; one that cannot run, differs or dies is a row with its reason. Raises ModelError without a reference.

    `setups` may give a mode another setup, as tests do that break a mode on purpose.
    """
    chosen = [REFERENCE, *[mode for mode in modes if mode != REFERENCE]]
    found = {mode: ModeResult(mode) for mode in chosen}
    _examine(setup, found, settings, say=say, setups=setups or (lambda _: setup))
    _time(setup, found, settings, say=say)
    return found


def ratio(slower: ModeResult, faster: ModeResult, quantity: str) -> Interval | None:
    """How many times longer one takes than the other, by the statistics of `benchmark`; None if one was not measured."""
    if quantity not in slower.timed or quantity not in faster.timed:
        return None
    (one, size), (other, _) = slower.timed[quantity], faster.timed[quantity]
    return speedup(one, other, size)


def _examine(
    setup: NetworkSetup,
    found: dict[ModeName, ModeResult],
    settings: GraphModes,
    *,
    say: Callable[[str], None],
    setups: Callable[[ModeName], NetworkSetup],
) -> None:
    """Start one mode after the other, compare it with eager, train it and save it; a mode that fails is not timed."""
    environment = isolate.threads(settings.threads)

    def eager(function: Callable[..., Any], *arguments: Any) -> Any:
        name = f"{setup.network} {REFERENCE}"
        return isolate.run(name, function, REFERENCE, *arguments, timeout_s=settings.timeout_s, environment=environment)

    truth = eager(mode_worker.answer_of, truth_of(setup))
    reordered = [eager(mode_worker.losses_of, setup, turn) for turn in (1, setup.sizes.batch // 2)]
    reference: dict[str, Any] = {}
    for mode, measurement in found.items():
        name = f"{setup.network} {mode}"
        try:
            with Isolated(name, ModeWorker, mode, setups(mode), timeout_s=settings.timeout_s, environment=environment) as child:
                first = child.call("first")
                reference = reference or first
                agreed = agreement.judge(first, reference, truth, reordered=reordered, limit=settings.noise_limit)
                measurement.facts = {
                    key: first[key] for key in ("import_s", "build_s", "first_answer_s", "first_step_s", "lines", "version")
                }
                measurement.facts |= {"answer_noise": agreed.answer_noise, "loss_noise": agreed.loss_noise}
                measurement.losses, measurement.reason = first["losses"], agreed.reason
                say(f"{name}: {agreed.reason or f'computes the same as eager (noise ratio {agreed.answer_noise:.2f})'}")
                if measurement.measured:
                    _finish(setup, child, measurement, settings)
                    say(f"{name}: loads without the model's code: {_yes(measurement)}")
        except BadInput as error:
            if mode == REFERENCE:
                raise ModelError(f"{name} is the reference of all modes and failed ({error}): fix it first") from None
            measurement.reason = str(error)
            say(f"{name}: {measurement.reason}")


def _finish(setup: NetworkSetup, child: Isolated, measurement: ModeResult, settings: GraphModes) -> None:
    """Continue training for the loss curve, for as many steps as are timed, and save the deployed form."""
    if MODES[measurement.mode].trains:
        measurement.losses += [loss for loss, _ in child.call("train", settings.rounds * setup.sizes.steps)]
    _deploy(setup, child, measurement, settings)


def _time(setup: NetworkSetup, found: dict[ModeName, ModeResult], settings: GraphModes, *, say: Callable[[str], None]) -> None:
    """Time the modes that agree with eager; one that fails has its reason and no times."""
    modes = [mode for mode, measurement in found.items() if measurement.measured]
    batch = setup.sizes.batch
    served, trained = timing.serve(setup, modes, settings, say=say), timing.train(setup, modes, settings, say=say)
    for quantity, measured, size in (("step_ms", trained, batch), ("forward_ms", served, batch), ("request_ms", served, 1)):
        for mode in modes:
            if mode in measured:
                found[mode].timed[quantity] = measured[mode], size
                found[mode].reason = found[mode].reason or measured[mode].reason
        if itself := speedup(measured[REFERENCE], measured[REFERENCE + AGAIN], size):
            found[REFERENCE].aa_ratio[quantity] = itself
    for mode in modes:
        if not found[mode].measured:
            found[mode].timed.clear()


def _deploy(setup: NetworkSetup, child: Isolated, measurement: ModeResult, settings: GraphModes) -> None:
    folder = setup.folder / "forms" / measurement.mode
    folder.mkdir(parents=True, exist_ok=True)
    try:
        form = deploying.SavedForm(folder=Path(folder), **child.call("save", str(folder)))
    except BadInput as error:
        measurement.deploys, measurement.deploys_reason = False, f"saving failed: {error}"
        return
    site = setup.torch_site if MODES[measurement.mode].framework == "torch" else None
    measurement.deploys, measurement.deploys_reason = deploying.loads_without_code(
        form, site=site, timeout_s=settings.timeout_s, device=setup.device
    )


def _yes(measurement: ModeResult) -> str:
    return "yes" if measurement.deploys else f"no ({measurement.deploys_reason})"
