"""All modes of one network, side by side: made in processes of their own, held to parity, then timed in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.config.params import GraphModes
from paddleship.errors import BadInput, ModelError
from paddleship.graphmodes import agreement, deploying, subject
from paddleship.graphmodes.case import Case, truth_of
from paddleship.graphmodes.subject import Subject
from paddleship.system import isolate
from paddleship.system.isolate import Isolated

QUANTITIES = ("step_ms", "forward_ms", "request_ms")
_RESAMPLES = 10_000
_WARM_UPS = 2


@dataclass
class Measurement:
    """What was seen of one mode of one network: `blocks[quantity]` holds the samples of each round in ms; `reason` why there are none."""

    mode: ModeName
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    blocks: dict[str, list[list[float]]] = field(default_factory=dict)
    peak_memory_bytes: int | None = None
    deploys: bool | None = None
    deploys_reason: str = ""

    @property
    def measured(self) -> bool:
        return not self.reason

    def median(self, quantity: str) -> float | None:
        samples = [sample for block in self.blocks.get(quantity, []) for sample in block]
        return float(np.median(samples)) if samples else None


def race(
    case: Case,
    modes: Sequence[ModeName],
    settings: GraphModes,
    *,
    say: Callable[[str], None],
    cases: Callable[[ModeName], Case] | None = None,
) -> dict[ModeName, Measurement]:
    """Measure every mode; one that cannot run, departs or dies is a row with its reason. Raises ModelError without a reference.

    `cases` may give a mode another case than the rest, as tests do that break one on purpose.
    """
    chosen = [REFERENCE, *[mode for mode in modes if mode != REFERENCE]]
    found = {mode: Measurement(mode) for mode in chosen}
    alive: dict[ModeName, Isolated] = {}
    try:
        _make(case, alive, found, settings, say=say, cases=cases or (lambda _: case))
        _time(case, alive, found, settings, say=say)
        for mode, child in alive.items():
            found[mode].peak_memory_bytes = _peak_memory(child.pid)
            _deploy(case, child, found[mode], settings)
            say(f"{case.network}  {mode}: loads without the model's code: {_yes(found[mode])}")
    finally:
        for child in alive.values():
            child.close()
    return found


def ratio_interval(numerator: Measurement, denominator: Measurement, quantity: str) -> tuple[float, float, float] | None:
    """Median of the ratios of the rounds with a 95% interval, by bootstrap over the rounds; None where one was not measured."""
    above, below = (measurement.blocks.get(quantity, []) for measurement in (numerator, denominator))
    if not above or not below:
        return None
    ratios = np.array([np.median(one) / np.median(other) for one, other in zip(above, below, strict=True)])
    draws = np.random.default_rng(0).choice(ratios, (_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def _make(
    case: Case,
    alive: dict[ModeName, Isolated],
    found: dict[ModeName, Measurement],
    settings: GraphModes,
    *,
    say: Callable[[str], None],
    cases: Callable[[ModeName], Case],
) -> None:
    """Start every mode and hold it to parity; what fails is closed before anything is timed."""
    environment = isolate.threads(settings.threads)

    def eager(function: Callable[..., Any], *arguments: Any) -> Any:
        name = f"{case.network} {REFERENCE}"
        return isolate.run(name, function, REFERENCE, *arguments, timeout_s=settings.timeout_s, environment=environment)

    truth = eager(subject.answer_of, truth_of(case))
    reordered = [eager(subject.losses_of, case, turn) for turn in (1, case.sizes.batch // 2)]
    reference: dict[str, Any] = {}
    for mode, measurement in found.items():
        name = f"{case.network} {mode}"
        try:
            child = Isolated(name, Subject, mode, cases(mode), timeout_s=settings.timeout_s, environment=environment)
            alive[mode] = child
            first = child.call("first")
        except BadInput as error:
            _leave(mode, alive, measurement, str(error))
            if mode == REFERENCE:
                raise ModelError(f"{name} cannot be run ({error}): nothing can be compared with it") from None
            say(f"{name}: {measurement.reason}")
            continue
        reference = reference or first
        agreed = agreement.judge(first, reference, truth, reordered=reordered, limit=settings.noise_limit)
        measurement.facts = {key: first[key] for key in ("import_s", "build_s", "first_answer_s", "first_step_s", "lines", "version")}
        measurement.facts |= {"answer_noise": agreed.answer_noise, "loss_noise": agreed.loss_noise}
        measurement.losses = first["losses"]
        if agreed.reason:
            _leave(mode, alive, measurement, agreed.reason)
        say(f"{name}: {agreed.reason or f'same as eager, noise ratio {agreed.answer_noise:.2f}'}")


def _time(
    case: Case, alive: dict[ModeName, Isolated], found: dict[ModeName, Measurement], settings: GraphModes, *, say: Callable[[str], None]
) -> None:
    """Rounds A B C, B C A, …: each mode trains some steps, answers some batches and some single rows."""
    for number in range(-1, settings.rounds):  # the first round only warms up
        names = list(alive)
        for mode in names[number % len(names) :] + names[: number % len(names)]:
            try:
                _round(case, alive[mode], found[mode], warm_up=number < 0)
            except BadInput as error:
                _leave(mode, alive, found[mode], str(error))
        if number >= 0:
            say(f"{case.network}  round {number + 1}/{settings.rounds}  {len(alive)} modes")


def _round(case: Case, child: Isolated, measurement: Measurement, *, warm_up: bool) -> None:
    sizes = case.sizes
    taken = child.call("train", _WARM_UPS if warm_up else sizes.steps) if MODES[measurement.mode].trains else []
    measurement.losses += [loss for loss, _ in taken]
    samples = {
        "step_ms": [milliseconds for _, milliseconds in taken],
        "forward_ms": child.call("answer", sizes.batch, _WARM_UPS if warm_up else sizes.forwards),
        "request_ms": child.call("answer", 1, _WARM_UPS if warm_up else sizes.requests),
    }
    if warm_up:
        return
    for quantity, block in samples.items():
        if block:
            measurement.blocks.setdefault(quantity, []).append(block)


def _leave(mode: ModeName, alive: dict[ModeName, Isolated], measurement: Measurement, reason: str) -> None:
    """A mode leaves the race with its reason, and without samples."""
    measurement.reason = reason
    measurement.blocks.clear()
    if mode in alive:
        alive.pop(mode).close()


def _deploy(case: Case, child: Isolated, measurement: Measurement, settings: GraphModes) -> None:
    folder = case.folder / "forms" / measurement.mode
    folder.mkdir(parents=True, exist_ok=True)
    try:
        form = deploying.Form(folder=Path(folder), **child.call("save", str(folder)))
    except BadInput as error:
        measurement.deploys, measurement.deploys_reason = False, f"it cannot be saved: {error}"
        return
    site = case.torch_site if MODES[measurement.mode].framework == "torch" else None
    measurement.deploys, measurement.deploys_reason = deploying.loads_without_code(form, site=site, timeout_s=settings.timeout_s)


def _yes(measurement: Measurement) -> str:
    return "yes" if measurement.deploys else f"no ({measurement.deploys_reason})"


def _peak_memory(pid: int) -> int | None:
    """Largest resident size of a process so far, read from outside; bytes."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
