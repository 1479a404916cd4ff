"""Which variant comes next: all combinations, at random, or near the best ones so far. The only door to Optuna.

The study is in memory: its user keeps the variants that were tried, and names them again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from paddleship.config.sections.sweep import Range, Sweep
from paddleship.sweep import space
from paddleship.sweep.space import Point

Objectives = tuple[float, float, float]
"""Score (higher is better), p50 in ms and bytes (lower is better)."""
_DIRECTIONS = ("maximize", "minimize", "minimize")
_REPEATS = 20  # draws in a row that give known variants, before the next one is at random
_DRAWS = 400  # in a row that give known variants, before the space counts as used up
_FEWEST_AT_RANDOM = 4
_DIGITS = 4  # of a drawn fraction


class Study:
    """Proposes every variant once, at most `settings.trials` with those that it knows from an earlier command."""

    def __init__(self, settings: Sweep, *, seed: int) -> None:
        self._settings, self._seed = settings, seed
        self._trials: dict[str, int] = {}
        self._points = space.combinations(settings) if settings.method == "grid" else self._draws()

    def know(self, point: Point) -> None:
        """Add a variant of an earlier command, which is not proposed again."""
        number = -1
        if self._settings.method != "grid":
            self._optuna.enqueue_trial(self._indexed(point))
            number = self._optuna.ask(self._distributions).number
        self._trials[space.key(point)] = number

    def next(self) -> dict[str, Any] | None:
        """The values of the next variant; None if there is none."""
        if len(self._trials) >= self._settings.trials:
            return None
        for point in self._points:
            if self._settings.method != "grid":
                return point
            if space.key(point) not in self._trials:
                self._trials[space.key(point)] = -1
                return point
        return None

    def tell(self, point: Point, objectives: Objectives | None) -> None:
        """Add the objectives that a variant reached; None if it failed."""
        if self._settings.method == "grid":
            return
        number = self._trials[space.key(point)]
        if objectives is None:
            self._forget(number)
        else:
            self._optuna.tell(number, list(objectives))

    def _draws(self) -> Iterator[dict[str, Any]]:
        """Variants that are not known yet, until none is left."""
        from optuna.samplers import RandomSampler

        self._optuna.sampler = sampler = self._sampler()
        known_in_a_row = 0
        while known_in_a_row < _DRAWS and len(self._trials) < (space.size(self._settings) or self._settings.trials):
            trial = self._optuna.ask(self._distributions)
            point = self._point(trial.params)
            if space.key(point) in self._trials:
                self._forget(trial.number)
                known_in_a_row += 1
                if known_in_a_row == _REPEATS:
                    self._optuna.sampler = RandomSampler(seed=self._seed + len(self._trials))
                continue
            known_in_a_row, self._optuna.sampler = 0, sampler
            self._trials[space.key(point)] = trial.number
            yield point

    def _sampler(self) -> Any:
        """With another seed after a restart, or it would draw the known variants again."""
        from optuna.samplers import RandomSampler, TPESampler

        seed = self._seed + len(self._trials)
        if self._settings.method == "random":
            return RandomSampler(seed=seed)
        return TPESampler(seed=seed, n_startup_trials=max(_FEWEST_AT_RANDOM, self._settings.trials // 3))

    def _forget(self, number: int) -> None:
        from optuna.trial import TrialState

        self._optuna.tell(number, state=TrialState.FAIL)

    @cached_property
    def _optuna(self) -> Any:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        return optuna.create_study(directions=list(_DIRECTIONS))

    @cached_property
    def _distributions(self) -> dict[str, Any]:
        """Of the numbers of a range, and of the indices in a list, whose values may be of any kind."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        made: dict[str, Any] = {}
        for path, values in self._settings.space.items():
            if isinstance(values, list):
                made[path] = CategoricalDistribution(list(range(len(values))))
            elif isinstance(values.low, int) and isinstance(values.high, int):
                made[path] = IntDistribution(values.low, values.high, log=values.log)
            else:
                made[path] = FloatDistribution(values.low, values.high, log=values.log)
        return made

    def _point(self, drawn: Point) -> dict[str, Any]:
        """The values of the params that Optuna's values represent."""
        return {path: self._value(values, drawn[path]) for path, values in self._settings.space.items()}

    def _value(self, values: Range | list[Any], drawn: Any) -> Any:
        if isinstance(values, list):
            return values[drawn]
        if isinstance(drawn, int):
            return drawn
        return min(max(float(f"{drawn:.{_DIGITS}g}"), values.low), values.high)

    def _indexed(self, point: Point) -> dict[str, Any]:
        """The values as Optuna knows them."""
        indices: dict[str, Any] = {}
        for path, value in point.items():
            values = self._settings.space[path]
            indices[path] = values.index(value) if isinstance(values, list) else value
        return indices
