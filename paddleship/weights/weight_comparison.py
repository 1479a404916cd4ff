"""Compare every weight of the checkpoint with the corresponding tensor in a candidate's files.

A weight is looked up by the name that export recorded. If a converter folded it into another tensor or renamed it, it is searched by
its values, which cannot distinguish equal tensors. Weights that neither search finds are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.numerics.differences import Array, wide
from paddleship.reports.finding import Finding
from paddleship.weights import derived_weights
from paddleship.weights.candidate_tensors import Tensor, Tensors
from paddleship.weights.differences import describe, equal, rounded, twin

UNUSED, MOVED, UNPLACED, CORRECTED = (
    "the exported program does not use it",
    "the converter folded it into another tensor or gave it another form",
    "found by its numbers, under another name",
    "its quantiser corrects biases",
)
NO_READER = "its runtime registers no reader of weights"
_ADVICE = "convert again from this checkpoint: `paddleship run --again export --again optimize`"
_MOSTLY, _FEW = 0.5, 3  # share and number of different weights from which on it is another checkpoint, not an error in one weight
_NAMED = 20  # names in a report
_HALF = 0.5 + 1e-3  # of a step, with the rounding of the scale


@dataclass(frozen=True)
class NotCompared:
    """A weight that was not compared by name: its name, its number of elements, and the reason."""

    name: str
    count: int
    why: str


@dataclass(frozen=True)
class WeightComparison:
    """The comparison of a candidate's files with the checkpoint, in numbers of elements.

    `exact` are equal to the bit; `compared` are those, values that a lower precision rounds, and values that differ. `not_compared` lists
    weights that were not compared by name. `extra` counts constants of the program that are not in the checkpoint. `unread` is
    the reason if the files cannot be read. `compared_at_all` is False if nothing reads the files of this runtime.
    """

    total: int = 0
    compared: int = 0
    exact: int = 0
    not_compared: tuple[NotCompared, ...] = ()
    extra: int = 0
    findings: tuple[Finding, ...] = field(default=())
    unread: str = ""
    compared_at_all: bool = True

    @property
    def compared_share(self) -> float:
        return self.compared / self.total if self.total else float(self.compared_at_all and not self.unread)

    @property
    def exact_share(self) -> float:
        return self.exact / self.total if self.total else float(self.compared_at_all and not self.unread)

    def __bool__(self) -> bool:
        """Whether the files were read and nothing differs."""
        return self.compared_at_all and not self.findings and not self.unread

    def problems(self) -> list[Finding]:
        """The errors: tensors that differ, or files that cannot be read."""
        if self.unread:
            return [Finding("weights-differ", "error", f"the weights cannot be compared ({self.unread})", _ADVICE)]
        return list(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """For a report: shares of all weights, and the first names of weights that were not compared by name, by reason."""
        names: dict[str, list[str]] = {}
        for one in self.not_compared:
            names.setdefault(one.why, []).append(one.name)
        left = {
            why: {"share": share, "names": names.get(why, [])[:_NAMED], "tensors": len(names.get(why, []))}
            for why, share in self.left().items()
        }
        return {
            "numbers": self.total,
            "compared_share": self.compared_share,
            "exact_share": self.exact_share,
            "not_in_place": left,
            "constants": self.extra,
            "differences": [finding.message for finding in self.problems()],
        }

    def left(self) -> dict[str, float]:
        """The share of all weights that was not compared by name, by reason."""
        if not self.compared_at_all:
            return {NO_READER: 1.0}
        counts = Counter[str]()
        for one in self.not_compared:
            counts[one.why] += one.count
        return {why: count / self.total for why, count in counts.items()}


@dataclass(frozen=True)
class CheckpointTensors:
    """What a candidate is compared with: the checkpoint, the program's name of each tensor, and the tensors of the exported program.

    `program` is None if the exported program itself is compared.
    """

    checkpoint: Mapping[str, Array] = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    program: Tensors | None = field(default=None, repr=False)

    def weights(self) -> dict[str, list[str]]:
        """The keys of the checkpoint by their name in the program; a weight that several layers share has several keys."""
        by_name: dict[str, list[str]] = {}
        for key in self.checkpoint:
            by_name.setdefault(self.names.get(key, key), []).append(key)
        return by_name


def compare(original: CheckpointTensors, held: Tensors, *, pruned: bool = False, corrects_biases: bool = False) -> WeightComparison:
    """Compare the tensors of a candidate's files; in a `pruned` candidate, weights may be zero."""
    weights = original.weights()
    total = sum(original.checkpoint[keys[0]].size for keys in weights.values())
    derived = _derived(original, held)
    exact, compared, missed, errors = 0, 0, list[NotCompared](), dict[str, str]()
    for name, keys in weights.items():
        own, tensor = original.checkpoint[keys[0]], held.get(name)
        if tensor is not None:
            same = any(equal(original.checkpoint[key], tensor.values) for key in keys)
            if not same and corrects_biases and own.ndim < 2:
                missed.append(NotCompared(keys[0], own.size, CORRECTED))
                continue
            exact += own.size * same
            compared += own.size
            if not same and not _is_near(own, tensor, pruned=pruned):
                errors[keys[0]] = describe(own, _shown(tensor), original.checkpoint)
        elif derived.get(keys[0]) is not None:
            compared += own.size
            errors |= {keys[0]: error} if (error := derived[keys[0]]) else {}
        else:
            missed.append(NotCompared(keys[0], own.size, MOVED if keys[0] in derived else _why(original, name, own, held)))
    compared += sum(one.count for one in missed if one.why == UNPLACED)
    constants, extra = _constants(original, held, weights)
    findings = _findings({**errors, **constants}, {key: original.checkpoint[key] for key in errors}, held, original)
    return WeightComparison(total, compared, exact, tuple(missed), extra, tuple(findings))


def merge(parts: Sequence[WeightComparison]) -> WeightComparison:
    """The comparison of a candidate with several programs: all differences, and the smallest share of any program."""
    least = min(parts, key=lambda part: (part.compared, part.exact))
    findings = {str(finding): finding for part in parts for finding in part.findings}
    return replace(least, findings=tuple(findings.values()), unread=next((part.unread for part in parts if part.unread), ""))


def _is_near(own: Array, tensor: Tensor, *, pruned: bool) -> bool:
    """Whether a tensor is the weight in a lower precision: within half a step, or with up to half of its values zero."""
    if tensor.values.size != own.size:
        return False
    values = wide(tensor.values.reshape(own.shape))
    if pruned:
        unpruned = values != 0
        return bool((values[unpruned] == wide(own)[unpruned]).all()) and int((~unpruned).sum()) <= own.size / 2 + int((own == 0).sum())
    if tensor.step is None:
        return False
    distances = np.abs(values - wide(own)).reshape(tensor.values.shape)
    return bool((distances <= _HALF * tensor.step + np.finfo(np.float32).eps * np.abs(tensor.values)).all())


def _shown(tensor: Tensor) -> Array:
    """The values in the checkpoint's form, for messages."""
    return tensor.values if tensor.step is None else tensor.values.astype(np.float32)


def _derived(original: CheckpointTensors, held: Tensors) -> dict[str, str | None]:
    """The weights that the program holds in a derived form, with the error (empty: none; None: the tensor is missing)."""
    errors: dict[str, str | None] = {}
    for path, name in original.names.items():
        keys = derived_weights.sources(path, original.checkpoint)
        if path not in original.checkpoint and keys:
            right = name in held and derived_weights.matches(tuple(original.checkpoint[key] for key in keys), held[name])
            error = "" if right else f"is not what {path} was derived from in the candidate"
            errors |= dict.fromkeys(keys, error if name in held else None)
    return errors


def _why(original: CheckpointTensors, name: str, own: Array, held: Tensors) -> str:
    """Why no tensor has a weight's name."""
    if original.program is None or name not in original.program:
        return UNUSED
    same = (tensor for tensor in held.values() if tensor.values.size == own.size)
    return UNPLACED if any(_is_present(own, tensor) for tensor in same) else MOVED


def _is_present(own: Array, tensor: Tensor) -> bool:
    turned = Tensor(tensor.values.T, None if tensor.step is None else tensor.step.T)
    return any(equal(own, one.values) or _is_near(own, one, pruned=False) for one in (tensor, turned))


def _constants(original: CheckpointTensors, held: Tensors, weights: Mapping[str, list[str]]) -> tuple[dict[str, str], int]:
    """The errors in constants of the program that are not in the checkpoint, and the number of their elements."""
    program = held if original.program is None else original.program
    paths = {name: path for path, name in original.names.items()}
    errors, count = {}, 0
    for name, tensor in program.items():
        if name in weights:
            continue
        count += tensor.values.size
        counterpart = held.get(name)
        if counterpart is not None and counterpart.step is None and not equal(tensor.values, counterpart.values):
            errors[paths.get(name, name)] = describe(tensor.values, counterpart.values, {}, source="the exported program")
    return errors, count


def _findings(errors: Mapping[str, str], differing: Mapping[str, Array], held: Tensors, original: CheckpointTensors) -> list[Finding]:
    """One finding for each difference; a single one if most weights differ and none holds another weight of the checkpoint."""
    names = original.names
    pairs = {key: (array, held[names.get(key, key)]) for key, array in differing.items() if names.get(key, key) in held}
    through = {key: rounded(array, tensor.values) for key, (array, tensor) in pairs.items()}
    exchanged = any(twin(array, _shown(tensor), original.checkpoint) for array, tensor in pairs.values())
    if errors and all(through.get(key) for key in errors):
        first = next(iter(errors))
        message = f"{len(errors)} weights were rounded: {first} {errors[first]}"
        return [Finding("dtype-differs", "error", message, "convert in float32, or declare the lower precision", layer=_layer(first))]
    if len(errors) >= max(_FEW, _MOSTLY * len(names)) and not exchanged:
        listed = ", ".join(list(errors)[:_FEW])
        message = f"{len(errors)} weights are not the checkpoint's ({listed} …): the candidate was made from another one"
        return [Finding("weights-differ", "error", message, _ADVICE)]
    return [Finding("weights-differ", "error", f"{key} {error}", _ADVICE, layer=_layer(key)) for key, error in errors.items()]


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name
