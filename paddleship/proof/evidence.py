"""Evidence: cases, truth, reference, and the noise of the reference.

Real rows are one group, each walk through ids another. Each edge case or regression case is a group of its own, because its values have
another size; it has at least the relative noise of the rows, because it has few elements. The error of the reference counts as at least
one float32 rounding. Integers and bools must equal the reference wherever it agrees with the truth. Where the reference is NaN or
infinite there is no distance: the answer must be the same, see parity.

If a model does not run in float64 as a whole, each operator does, see `paddleship.model.float64`. If that fails too, the reference
replaces the truth and the noise is measured: the change of eager's answers when weights and inputs are nudged by two float32
roundings, in the same batches. It is at least NOISE_FLOOR and at most NOISE_CEILING of the scale, so that no model can make it large
enough for wrong answers. `rule` names the rule that was used, `why` the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.data.task_kinds import positions
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import CandidateError, ModelError
from paddleship.numerics import array_files, differences
from paddleship.numerics.differences import Array, wide
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.spec import Arrays

EPSILON = float(np.finfo(np.float32).eps)
NOISE_FLOOR = 1e-6  # honest float32 networks have errors of 3e-7 to 4e-6 of their scale
NOISE_CEILING = 1e-3  # of the scale, for noise measured by nudging; eight times it is still below one percent
_TINY = float(np.finfo(np.float32).tiny)

_MASK, _DWARFS = 1e4, 1e3  # smallest mask value, and how many times it must exceed all other values

FLOAT64_TRUTH = "eager float64"
BY_OPERATOR = "eager float64, operator by operator"
MEASURED_NOISE = "eager float32 with weights and inputs nudged"

ROWS = "rows"


@dataclass(frozen=True)
class Noise:
    """The distance between reference and truth in one output over one group of cases, and the scale of the truth."""

    scale: float
    largest: float
    typical: float


@dataclass(frozen=True)
class Evidence:
    """What candidates are compared with: cases, truth, reference, and noise.

    `noise` maps a group of cases and an output to its Noise. `task` is data.task; None if there are no decisions. `labels` belong to the
    rows by number and may be empty.
    """

    cases: tuple[Case, ...]
    truth: list[Arrays]
    reference: list[Arrays]
    rule: str
    noise: dict[str, dict[str, Noise]]
    why: str = ""
    task: str | None = None
    labels: Array = field(default_factory=lambda: np.zeros(0))

    def save(self, folder: Path) -> None:
        """Write one file each for inputs, truth, reference and labels, and cases.json with their hashes."""
        meta = {
            "rule": self.rule,
            "why": self.why,
            "task": self.task,
            "noise": {group: {name: asdict(noise) for name, noise in outputs.items()} for group, outputs in self.noise.items()},
            "cases": [
                {
                    "name": case.name,
                    "group": case.group,
                    "rows": case.rows,
                    "family": case.family,
                    **({"made": case.made} if case.made else {}),
                }
                for case in self.cases
            ],
        }
        arrays = {"inputs": [case.inputs for case in self.cases], "truth": self.truth, "reference": self.reference}
        for name, parts in arrays.items():
            flat: dict[str, Any] = {f"{index}/{key}": array for index, part in enumerate(parts) for key, array in part.items()}
            np.savez(folder / f"{name}.npz", **flat)
        np.save(folder / "labels.npy", self.labels, allow_pickle=False)
        files = {name: sha256(folder / name) for name in (*(f"{name}.npz" for name in arrays), "labels.npy")}
        (folder / "cases.json").write_text(json.dumps({**meta, "files": files}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Evidence:
        """Read what `save` wrote. Raises CandidateError."""
        try:
            meta = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
            count = len(meta["cases"])
            if changed := [name for name, digest in meta["files"].items() if sha256(folder / name) != digest]:
                raise ValueError(f"{changed[0]} changed since it was written")
            inputs, truth, reference = (_load_arrays(folder / f"{name}.npz", count) for name in ("inputs", "truth", "reference"))
            labels = np.load(folder / "labels.npy", allow_pickle=False)
            noise = {group: {name: Noise(**numbers) for name, numbers in outputs.items()} for group, outputs in meta["noise"].items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CandidateError(
                f"parity evidence in {str(folder)!r} cannot be read ({array_files.reason(error)}): run `paddleship run --again verify`"
            ) from None
        cases = [
            Case(item["name"], item["group"], part, tuple(item["rows"]), item["family"], tuple(item.get("made", ())))
            for item, part in zip(meta["cases"], inputs, strict=True)
        ]
        return cls(tuple(cases), truth, reference, meta["rule"], noise, meta["why"], meta["task"], labels)

    def only(self, wanted: Callable[[Case], bool]) -> Evidence:
        """The evidence of some cases, with the noise of all."""
        indices = [index for index, case in enumerate(self.cases) if wanted(case)]
        chosen: list[Any] = [[values[index] for index in indices] for values in (self.cases, self.truth, self.reference)]
        return replace(self, cases=tuple(chosen[0]), truth=chosen[1], reference=chosen[2])

    def first_outputs(self) -> list[Array]:
        """The eager model's first output, which decides, for each case."""
        return [next(iter(answer.values())) for answer in self.reference]

    @property
    def padded(self) -> bool:
        """Whether rows may have different sizes along the second axis of the first output."""
        return self.task is not None and task_kinds.get(self.task).decision.padded

    @property
    def per_position(self) -> bool:
        """Whether the first output decides each position of a row."""
        return self.task is not None and task_kinds.get(self.task).per_position

    @property
    def lengths(self) -> dict[int, int]:
        """The number of positions of each labelled row, if each of them is decided; otherwise empty."""
        return dict(enumerate((self.labels != positions.PADDING).sum(1).tolist())) if self.per_position and len(self.labels) else {}

    @property
    def groups(self) -> dict[str, list[int]]:
        """The indices of cases that are judged together, by group name."""
        groups: dict[str, list[int]] = {}
        for index, case in enumerate(self.cases):
            groups.setdefault(ROWS if case.group == "rows" else case.family or case.name, []).append(index)
        return groups


def gather(
    cases: Sequence[Case],
    reference: list[Arrays],
    truth: list[Arrays] | None,
    *,
    rule: str = FLOAT64_TRUTH,
    floor: float = EPSILON,
    nudged: Sequence[list[Arrays]] = (),
    task: str | None = None,
    labels: Array | None = None,
    why: str = "",
) -> Evidence:
    """Put the evidence together. Without a `truth` (for the reason `why`), the noise is computed from the `nudged` answers.

    `floor` is the smallest relative error of the reference. Raises CandidateError without cases, ModelError if eager's answers contain
    nothing to compare.
    """
    if not cases:
        raise CandidateError("there is nothing to compare: give one case at least that the model answers (in a pipeline: verify.samples)")
    if message := nothing_finite(reference):
        raise ModelError(message)
    numbers = np.zeros(0) if labels is None else labels
    if truth is not None:
        bare = Evidence(tuple(cases), truth, reference, rule, {}, why, task, numbers)
        return replace(bare, noise=_noise(bare, [reference], floor=floor, ceiling=np.inf))
    noisy = [_comparable(reference, one) for one in nudged]
    bare = Evidence(tuple(cases), _steady(reference, noisy), reference, MEASURED_NOISE, {}, why, task, numbers)
    return replace(bare, noise=_noise(bare, noisy, floor=NOISE_FLOOR, ceiling=NOISE_CEILING))


def nothing_finite(answers: Sequence[Arrays]) -> str:
    """An error message if answers contain nothing to compare: an output without one finite number, or no numbers at all."""
    finite = dict.fromkeys(answers[0], 0)
    sizes = dict.fromkeys(answers[0], 0)
    for answer in answers:
        for name, array in answer.items():
            finite[name] = finite.get(name, 0) + int(np.isfinite(array).sum())
            sizes[name] = sizes.get(name, 0) + array.size
    strange = [name for name, size in sizes.items() if size and not finite[name]]
    if not strange and any(sizes.values()):
        return ""
    what = f"nothing but NaN and infinity in {', '.join(strange)}" if strange else "no number at all"
    return (
        f"the eager model answers {what}, in all of {len(answers)} batches, so there is nothing to compare: check for NaN in the weights "
        "and for logarithms, roots and divisions outside their domain, or remove this output"
    )


def distance(evidence: Evidence, answers: Sequence[Arrays], name: str, indices: Sequence[int]) -> tuple[float, float, int]:
    """Largest and root-mean-square distance from the truth over some cases, and the case of the largest."""
    largest, total, count, worst = 0.0, 0.0, 0, indices[0]
    scale, mask = sizes_of(evidence, name, indices)
    for index in indices:
        truth, reference, answer = evidence.truth[index][name], evidence.reference[index][name], answers[index][name]
        valid = np.isfinite(truth) & np.isfinite(reference) if reference.dtype.kind == "f" else truth == reference
        true, distances = wide(truth)[valid], differences.elementwise_distance(answer, truth)[valid]
        if mask < np.inf:
            distances = np.where(np.abs(true) < mask, distances, distances / np.maximum(np.abs(true), mask) * scale)
        if distances.size and distances.max() > largest:
            largest, worst = float(distances.max()), index
        total, count = total + float((distances**2).sum()), count + distances.size
    return largest, float(np.sqrt(total / count)) if count else 0.0, worst


def by_row(evidence: Evidence, answers: Sequence[Arrays], name: str | None = None) -> tuple[Array, list[int]]:
    """One output (default: the first) of every distinct row, from its largest batch, and the rows' numbers.

    Empty if there is no row axis or the rows have different shapes; but a first output with steps or positions is padded.
    """
    values_of_row: dict[int, tuple[int, Array]] = {}
    for case, answer in zip(evidence.cases, answers, strict=True):
        array = answer[name or next(iter(answer))]
        if not case.rows or not array.ndim or len(array) != len(case.rows):
            continue
        for row, values in zip(case.rows, array, strict=True):
            if row not in values_of_row or values_of_row[row][0] < len(case.rows):
                values_of_row[row] = (len(case.rows), values)
    rows = sorted(values_of_row)
    if not rows:
        return np.zeros(0), []
    if len({values_of_row[row][1].shape for row in rows}) > 1:
        padded = evidence.padded and name in (None, next(iter(evidence.reference[0])))
        if not padded:
            return np.zeros(0), []
        return positions.stack([values_of_row[row][1] for row in rows], values_of_row[rows[0]][1].dtype, pad=0), rows
    return np.stack([values_of_row[row][1] for row in rows]), rows


def _noise(evidence: Evidence, noisy: Sequence[list[Arrays]], *, floor: float, ceiling: float) -> dict[str, dict[str, Noise]]:
    """The distance between noisy answers and truth, between floor and ceiling of the scale; integers have no noise."""
    noise: dict[str, dict[str, Noise]] = {}
    groups = evidence.groups
    for group in sorted(groups, key=lambda group: group != ROWS):  # the rows first: the other groups depend on them
        noise[group] = {}
        for name, array in evidence.reference[0].items():
            scale, _ = sizes_of(evidence, name, groups[group])
            if array.dtype.kind != "f":
                noise[group][name] = Noise(scale, _TINY, _TINY)
                continue
            distances = [distance(evidence, one, name, groups[group]) for one in noisy]
            sizes = [max((one[column] for one in distances), default=0.0) for column in (0, 1)]
            general = noise.get(ROWS, {}).get(name)
            if general is not None and general.scale:
                sizes = [max(sizes[0], general.largest / general.scale * scale), max(sizes[1], general.typical / general.scale * scale)]
            largest, typical = (min(size, ceiling * scale) for size in sizes)
            noise[group][name] = Noise(scale, max(largest, floor * scale, _TINY), max(typical, floor / 4 * scale, _TINY))
    return noise


def _comparable(reference: list[Arrays], nudged: Sequence[Arrays]) -> list[Arrays]:
    """The nudged answers, with the reference's values where shapes differ or values are not finite."""
    return [
        {name: _nudged_or_reference(array, answer[name]) if name in answer else array for name, array in expected.items()}
        for expected, answer in zip(reference, nudged, strict=True)
    ]


def _nudged_or_reference(array: Array, nudged: Array) -> Array:
    if nudged.shape != array.shape:
        return array
    return np.where(np.isfinite(nudged), nudged, array) if array.dtype.kind == "f" else nudged


def _steady(reference: list[Arrays], nudged: Sequence[list[Arrays]]) -> list[Arrays]:
    """The reference, with other integers wherever a nudge changes them, so that they are not compared."""
    truth = [dict(answer) for answer in reference]
    for one in nudged:
        for index, answer in enumerate(one):
            for name, array in reference[index].items():
                if array.dtype.kind != "f":
                    truth[index][name] = np.where(answer[name] != array, answer[name], truth[index][name])
    return truth


def sizes_of(evidence: Evidence, name: str, indices: Sequence[int]) -> tuple[float, float]:
    """The scale of one output over some cases, and the smallest size of its mask values; infinite without a mask.

    Mask values (-1e9 in place of a score) are within a factor of two of each other and much larger than all others. They are judged by
    their own size and do not count for the scale; neither do values that overflowed in float32.
    """
    sizes = [
        np.abs(wide(truth[np.isfinite(truth) & np.isfinite(reference)]))
        for truth, reference in ((evidence.truth[index][name], evidence.reference[index][name]) for index in indices)
    ]
    largest = differences.finite_max(sizes)
    if largest < _MASK or evidence.reference[0][name].dtype.kind != "f":
        return largest, np.inf
    rest = differences.finite_max([size[size < largest / 2] for size in sizes])
    return (rest, largest / 2) if 0 < rest < largest / 2 / _DWARFS else (largest, np.inf)


def _load_arrays(path: Path, count: int) -> list[Arrays]:
    answers: list[Arrays] = [{} for _ in range(count)]
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            index, _, name = key.partition("/")
            answers[int(index)][name] = stored[key]
    return answers
