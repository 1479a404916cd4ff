"""What an eager model does that no static program can do, found out by watching it and by asking it twice.

Everything here runs in a child process, on the seeded model that is converted later.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship import layers, model
from paddleship.doctor import memory, source, strangers, watching
from paddleship.doctor.source import Suspect
from paddleship.eager import Subject
from paddleship.errors import ModelError
from paddleship.finding import Finding
from paddleship.preprocess import Batch
from paddleship.proof.inputs import Case
from paddleship.runtimes import Arrays
from paddleship.spec import TensorSpec
from paddleship.structure import Tree

_TRIED = 3  # cases in which an input's values are turned round, to see whether any output follows


@dataclass(frozen=True)
class Checkup:
    """What is known of the eager model.

    `answers` are its answers to the cases it takes, `refused` its words on the others; `suspects` are the
    statements that forward ran and that are known to give trouble. `unused` are inputs without influence, and
    `forward` is the place of the user's forward.
    """

    findings: list[Finding]
    answers: dict[str, Arrays]
    refused: dict[str, str]
    nesting: Tree
    suspects: list[Suspect]
    unused: tuple[str, ...] = ()
    forward: str | None = None


class Patient:
    """The eager model under examination; without a checkpoint its seeded weights become one."""

    def __init__(self, subject: Subject) -> None:
        import paddle

        self._paddle = paddle
        self._seed = subject.seed
        self._specs: Mapping[str, TensorSpec] = {item.name: item.spec() for item in subject.model.inputs}
        self._nesting: Tree = None
        self._reseed(subject.seed)
        with watching.layers() as self._built:
            self._layer = model.build(subject.model)
        if subject.checkpoint.exists():
            model.restore(self._layer, subject.checkpoint)
        else:
            model.save(self._layer, subject.checkpoint, {"seed": subject.seed})
        self._layer.eval()

    def examine(self, cases: Sequence[Case]) -> Checkup:
        """Raises ModelError when no case is answered."""
        if findings := [*strangers.signature(self._layer, list(self._specs)), *strangers.weights(self._layer)]:
            return Checkup(findings, {}, {}, None, [])
        twin, before = _twin(self._layer), memory.snapshot(self._layer)
        with watching.layers() as running:
            answers, refused = self._answer_all(cases, running)
        if not answers:
            raise ModelError(next(iter(refused.values())))
        suspects = source.suspects(running.executed)
        changed = memory.changes(before, memory.snapshot(self._layer))
        random_lines = [f"{name}:{line}" for name, line in running.random]
        found = [
            *strangers.layers(self._layer, self._built, running),
            *memory.train_mode(self._layer, suspects, changed),
            *memory.randomness(not running.made and self._varies(cases, answers, certain=bool(random_lines)), random_lines),
            *memory.history(self._remembers(cases, answers, refused, twin), changed, suspects),
        ]
        return Checkup(
            _distinct(found),
            answers,
            refused,
            self._nesting,
            suspects,
            self._unused(cases, answers),
            strangers.place(type(self._layer).forward),
        )

    def _answer_all(self, cases: Sequence[Case], running: watching.Watch) -> tuple[dict[str, Arrays], dict[str, str]]:
        answers: dict[str, Arrays] = {}
        refused: dict[str, str] = {}
        for case in cases:
            try:
                with watching.lines(running, randomness=not answers):
                    answers[case.name] = self._ask(self._layer, case.inputs)
            except ModelError as refusal:
                refused[case.name] = str(refusal)
        return answers, refused

    def _ask(self, layer: Any, inputs: Batch, *, seed: int | None = None) -> Arrays:
        self._reseed(self._seed if seed is None else seed)
        with self._paddle.no_grad(), layers.Eagerly():
            result = model.call(layer, [self._paddle.to_tensor(inputs[name]) for name in self._specs])
            self._nesting, named = model.nest_outputs(result)
            if not named:
                raise ModelError(f"forward returned no tensor: end it with `return`, and give what it computes{_at(layer)}")
            return {name: tensor.numpy() for name, tensor in named.items()}

    def _varies(self, cases: Sequence[Case], answers: Mapping[str, Arrays], *, certain: bool) -> bool:
        """Whether another seed gives another answer, and the same seed the same, unless it is `certain` to be chance."""
        inputs = next(case.inputs for case in cases if case.name in answers)
        first, again = self._ask(self._layer, inputs), self._ask(self._layer, inputs)
        other = self._ask(self._layer, inputs, seed=self._seed + 1)
        return not memory.same(again, other) and (certain or memory.same(first, again))

    def _remembers(self, cases: Sequence[Case], answers: Mapping[str, Arrays], refused: Mapping[str, str], twin: Any) -> bool:
        """Whether an answer depends on what was asked before: the first question again, and others to a twin that was never asked."""
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

    def _unused(self, cases: Sequence[Case], answers: Mapping[str, Arrays]) -> tuple[str, ...]:
        """Inputs whose values change nothing."""
        tried = [case for case in cases if case.name in answers][:_TRIED]
        return tuple(name for name in self._specs if len(self._specs) > 1 and not any(self._follows(name, case, answers) for case in tried))

    def _follows(self, name: str, case: Case, answers: Mapping[str, Arrays]) -> bool:
        try:
            turned = self._ask(self._layer, {**case.inputs, name: _turned(self._specs[name], case.inputs[name])})
        except ModelError:
            return True
        return any(not np.array_equal(array, turned[key], equal_nan=array.dtype.kind == "f") for key, array in answers[case.name].items())

    def _reseed(self, seed: int) -> None:
        self._paddle.seed(seed)
        random.seed(seed)
        np.random.seed(seed)


def _at(layer: Any) -> str:
    where = strangers.place(type(layer).forward)
    return f" (at {where})" if where else ""


def _twin(layer: Any) -> Any:
    """A copy of a model that was never called; None where it cannot be copied."""
    try:
        return copy.deepcopy(layer)
    except Exception:
        return None


def _turned(spec: TensorSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Other valid values of the same shape."""
    if array.dtype.kind == "b":
        return np.array(~array)
    low = array.dtype.type(spec.low if spec.low is not None else array.min())
    high = array.dtype.type(spec.high if spec.high is not None else max(array.max(), low + 1))
    return np.array(low + high - array, array.dtype)


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """One finding per kind and place, the first and gravest."""
    kept: dict[tuple[str, str | None], Finding] = {}
    for finding in findings:
        kept.setdefault((finding.kind, finding.where), finding)
    return list(kept.values())
