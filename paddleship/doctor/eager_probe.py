"""Find what a static program cannot do, by observing the eager model and running it twice.

For a child process, with the same seeded weights as the later conversion.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddleship.controlflow.tracing import BranchKey, TakenBranches
from paddleship.doctor import ast_lint, memory, structure_checks, table_bounds, watching
from paddleship.doctor.ast_lint import Suspect
from paddleship.errors import ModelError, OutputError, ProcessDied, ProcessHung
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof.cases.inputs import Case, draw_values
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import layers, structure
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays, TensorSpec, sizes_of
from paddleship.shipped.computing.structure import Tree

_TRIED = 3  # cases in which the values of an input are exchanged, to see whether an output changes
_DRAWS = 4  # drawn values that are tried in each of them, until an output changes
_PATIENCE_S = 5.0  # after which a slow model is asked with one other value in each case


@dataclass(frozen=True)
class ProbeResult:
    """The result of the probe.

    `answers` are the answers by case, `refused` the errors of other cases. `suspects` are executed statements that are known to cause
    trouble. `unused` are inputs without influence, `influence_unknown` inputs whose influence is unknown. `forward` is the location of the
    user's forward, `taken` the outcomes of its branches. `crashes` are cases on which the process died, with how it ended;
    `skipped_after_crashes` were left out after that, and `skipped_slow` because the model is slow. Of cases in `cut_short`, only the
    beginning was observed.
    """

    findings: list[Finding]
    answers: dict[str, Arrays] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    nesting: Tree = None
    suspects: list[Suspect] = field(default_factory=list)
    unused: tuple[str, ...] = ()
    influence_unknown: tuple[str, ...] = ()
    forward: str | None = None
    taken_branches: dict[BranchKey, set[int]] = field(default_factory=dict)
    crashes: dict[str, ProcessDied | ProcessHung] = field(default_factory=dict)
    skipped_after_crashes: tuple[str, ...] = ()
    skipped_slow: tuple[str, ...] = ()
    cut_short: frozenset[str] = frozenset()


class ProbeWorker:
    """Runs the examined eager model; without a checkpoint, seeded weights are saved as one."""

    def __init__(self, source_model: SourceModel) -> None:
        import paddle

        self._paddle = paddle
        self._seed = source_model.seed
        self._specs: Mapping[str, TensorSpec] = {item.name: item.spec() for item in source_model.model.inputs}
        self._nesting: Tree = None
        self._constants: list[dict[str, Any]] = []
        self._reseed(source_model.seed)
        with watching.layers() as self._built:
            self._layer = source_model.build()
        self._fresh = not source_model.checkpoint.exists()
        if not self._fresh:
            building.restore(self._layer, source_model.checkpoint)
        else:
            building.save(self._layer, source_model.checkpoint, {"seed": source_model.seed})
        self._layer.eval()
        self._form = building.form(self._layer, source_model.model)
        self._absent = source_model.model.absent
        self._twin, self._before = _twin(self._layer), memory.snapshot(self._layer)
        self._running, self._taken = watching.Observations(), TakenBranches.of(self._layer)
        self._cases: list[Case] = []
        self._answers: dict[str, Arrays] = {}
        self._refused: dict[str, ModelError] = {}
        self._cut_short: set[str] = set()
        self._drawn: set[str] = set()
        self._reseed(self._seed)
        self._undrawn = watching.random_states()

    def inspect(self) -> list[Finding]:
        """Findings before the model is called."""
        return [
            *structure_checks.signature(self._layer, list(self._specs), self._absent),
            *structure_checks.weights(self._layer, fresh=self._fresh),
        ]

    def ask(self, case: Case, seconds: float) -> bool:
        """Whether the model answers this case; its lines are observed for so many seconds."""
        self._cases.append(case)
        self._running.cut_short = False
        try:
            with watching.layers(self._running), watching.lines(self._running, self._taken, seconds=seconds):
                self._answers[case.name] = self._ask(self._layer, case.inputs)
            self._drawn |= {name for name, state in watching.random_states().items() if state != self._undrawn[name]}
            self._cut_short |= {case.name} if self._running.cut_short else set()
            self._constants.append(structure.constants(self._nesting))
        except ModelError as refusal:
            self._refused[case.name] = refusal
        return case.name in self._answers

    def conclude(self) -> ProbeResult:
        """The findings from the cases that were asked. Raises ModelError if none was answered, for no known reason."""
        refused = {name: str(refusal) for name, refusal in self._refused.items()}
        outside = self._outside_of_tables()
        if not self._answers:
            if outside:
                return ProbeResult(outside, refused=refused)
            raise next(iter(self._refused.values()))
        cases, answers, running = self._cases, self._answers, self._running
        suspects = ast_lint.suspects(running.executed)
        changed = memory.changes(self._before, memory.snapshot(self._layer))
        random_lines = self._random_lines() if self._drawn else []
        where = structure_checks.location(type(self._layer).forward)
        findings = [
            *outside,
            *memory.constants(self._constants, where),
            *structure_checks.layers(self._layer, self._built, running),
            *memory.train_mode(self._layer, suspects, changed),
            *memory.randomness(not running.made and self._varies(cases, answers, certain=bool(random_lines)), random_lines),
            *memory.history(self._remembers(cases, answers, self._refused, self._twin), changed, suspects),
        ]
        return ProbeResult(
            _distinct(findings),
            answers,
            refused,
            self._nesting,
            suspects,
            forward=where,
            taken_branches=self._taken.by_branch,
            cut_short=frozenset(self._cut_short),
        )

    def influence(self, name: str, beyond: bool) -> bool | None:
        """Whether other values of an input change any output; None if it has no other valid values.

        `beyond`: values that are not declared are tried too, for an input with one valid value.
        """
        tried = [case for case in self._cases if case.name in self._answers][:_TRIED]
        others = _values_beyond if beyond else self._valid_values
        began, seen = time.monotonic(), set[bool | None]()
        for case in tried:
            for number, other in enumerate(others(name, case.inputs)):
                if number and not beyond and time.monotonic() - began > _PATIENCE_S:
                    break
                if follows := self._follows(name, case, other):
                    return True
                seen.add(follows)
        return False if False in seen else None

    def _ask(self, layer: Any, inputs: Batch, *, seed: int | None = None) -> Arrays:
        self._reseed(self._seed if seed is None else seed)
        with self._paddle.no_grad(), layers.Eagerly(), table_bounds.checked(layer, self._specs, inputs):
            result = building.call(layer, self._form.give({name: self._paddle.to_tensor(inputs[name]) for name in self._specs}))
            where = structure_checks.location(type(layer).forward)
            try:
                self._nesting, named = building.nest_outputs(result)
            except OutputError as odd:
                raise OutputError(str(odd), where=where) from None
            if not named:
                raise OutputError(structure_checks.no_tensor(self._nesting), where=where)
            return {name: tensor.numpy() for name, tensor in named.items()}

    def _outside_of_tables(self) -> list[Finding]:
        """Errors for ids outside of their tables, one for each line."""
        refusals = [refusal for refusal in self._refused.values() if isinstance(refusal, table_bounds.TableError)]
        return _distinct([Finding("bad-model", "error", str(refusal), refusal.advice, refusal.where) for refusal in refusals])

    def _random_lines(self) -> list[str]:
        """`file:line` of draws, from one more call: of a copy that was never called, if there is one."""
        case = next(case for case in self._cases if case.name in self._answers)
        layer = self._layer if self._twin is None else copy.deepcopy(self._twin)
        with watching.draws(self._drawn) as lines, suppress(ModelError):
            self._ask(layer, case.inputs)
        return [f"{name}:{line}" for name, line in lines]

    def _varies(self, cases: Sequence[Case], answers: Mapping[str, Arrays], *, certain: bool) -> bool:
        """A finding if another seed gives another answer and the same seed the same answer, unless it is `certain` to be chance."""
        inputs = next(case.inputs for case in cases if case.name in answers)
        first, again = self._ask(self._layer, inputs), self._ask(self._layer, inputs)
        other = self._ask(self._layer, inputs, seed=self._seed + 1)
        return not memory.same(again, other) and (certain or memory.same(first, again))

    def _remembers(self, cases: Sequence[Case], answers: Mapping[str, Arrays], refused: Mapping[str, ModelError], twin: Any) -> bool:
        """A finding if an answer depends on earlier calls: the first input is asked again, and others of a copy that was never called."""
        first = next(case for case in cases if case.name in answers)
        if not memory.same(answers[first.name], self._ask(self._layer, first.inputs)):
            return True
        if twin is None:
            return False
        later = [case for case in cases if case is not first and case.name in answers][:1]
        for case in [*later, *(case for case in cases if case.name in refused)]:
            try:
                if not memory.same(self._ask(copy.deepcopy(twin), case.inputs), answers.get(case.name, {})):
                    return True
            except ModelError:
                continue
        return False

    def _valid_values(self, name: str, inputs: Batch) -> Iterator[Array]:
        """Reversed, reordered and drawn values: what depends on differences, on order or on a few values ignores some of them."""
        spec, array, sizes = self._specs[name], inputs[name], sizes_of([*self._specs.values()], inputs)
        yield _other_values(spec, array, sizes)
        random_values = np.random.default_rng([self._seed, _DRAWS])
        yield np.asarray(random_values.permutation(array.ravel()).reshape(array.shape))
        for _ in range(_DRAWS):
            yield draw_values(spec, array.shape, sizes, random_values)

    def _follows(self, name: str, case: Case, other: Array) -> bool | None:
        if differences.equal(other, case.inputs[name]):
            return None
        try:
            turned = self._ask(self._layer, {**case.inputs, name: other})
        except ModelError:
            return True
        return any(not differences.equal(array, turned[key]) for key, array in self._answers[case.name].items())

    def _reseed(self, seed: int) -> None:
        self._paddle.seed(seed)
        random.seed(seed)
        np.random.seed(seed)


def _twin(layer: Any) -> Any:
    """A copy of a model that was never called; None if it cannot be copied."""
    try:
        return copy.deepcopy(layer)
    except Exception:
        return None


def _other_values(spec: TensorSpec, array: Array, sizes: Mapping[str, int]) -> Array:
    """Other valid values of the same shape: the range reversed, or its upper end for the values in its middle."""
    if array.dtype.kind == "b":
        return np.array(~array)
    lowest, highest = spec.limits(sizes)
    low = array.dtype.type(lowest if lowest is not None else array.min())
    high = array.dtype.type(highest if highest is not None else max(array.max(), low + 1))
    reversed_values = np.array(low + high - array, array.dtype)
    return np.where(reversed_values == array, high, reversed_values)


def _values_beyond(name: str, inputs: Batch) -> list[Array]:
    """Values around those of an input, and zeros."""
    array = inputs[name]
    return [np.array(other, array.dtype) for other in (array + 1, array - 1, array * 0)] if array.dtype.kind in "iuf" else []


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """One finding per kind and location: the first and most severe."""
    first: dict[tuple[str, str | None], Finding] = {}
    for finding in findings:
        first.setdefault((finding.kind, finding.where), finding)
    return list(first.values())
