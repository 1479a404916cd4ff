"""What a proof covers: rows, sizes, ids and branches that were tried, weights that were compared, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from paddleship.proof.cases import batches
from paddleship.proof.cases.inputs import Case
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.spec import TensorSpec, batch_dimension, sizes_of
from paddleship.weights import weight_comparison
from paddleship.weights.weight_comparison import WeightComparison

NOT_EXERCISED = "not-exercised"  # the kind of a finding about an output or input that the cases do not exercise
_MOST_IDS = 50_000_000  # of a declared range, for which the share is computed
_WHY = {
    weight_comparison.UNUSED: "unused",
    weight_comparison.MOVED: "folded",
    weight_comparison.UNPLACED: "by number alone",
    weight_comparison.CORRECTED: "corrected by the quantiser",
    weight_comparison.NO_READER: "in files that nothing here reads",
}


@dataclass(frozen=True)
class Coverage:
    """What was asked and compared.

    `sizes` maps every dynamic dimension to its smallest and largest size, `ids` every integer input with a declared range to the share of
    the range that was asked. `sides` counts the sides of the program's branches and loops, and those that an input took. `weights` is the
    smallest share of any candidate that was compared, `left` the largest share that was not compared by name, by reason. `batches`
    lists the batch sizes that were tried. `unexercised` names outputs and inputs that the cases do not exercise.
    """

    rows: int
    sizes: dict[str, tuple[int, int]]
    ids: dict[str, float]
    sides: tuple[int, int] = (0, 0)
    weights: float | None = None
    left: dict[str, float] = field(default_factory=dict)
    unexercised: tuple[str, ...] = ()
    batches: str = ""

    @property
    def metrics(self) -> dict[str, float]:
        """Flat numbers for a report."""
        shares = {"ids_share": min(self.ids.values(), default=None), "weights_compared_share": self.weights}
        sizes = {f"largest_{name}": largest for name, (_, largest) in self.sizes.items()}
        return {**sizes, **{name: share for name, share in shares.items() if share is not None}, "not_exercised": len(self.unexercised)}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.rows} rows", *(f"{name} {_span(*sizes)}" for name, sizes in self.sizes.items())]
        if self.ids:
            parts.append(f"{_percent(min(self.ids.values()))} of {'ids' if len(self.ids) > 1 else next(iter(self.ids))}")
        if self.sides[0]:
            parts.append(f"{self.sides[1]} of {self.sides[0]} branches")
        if self.weights is not None:
            left = "".join(f", {_percent(share)} {why}" for why, share in self.left.items())
            parts.append(f"weights: {_percent(self.weights)} compared{left}" if left else f"{_percent(self.weights)} of weights")
        if self.unexercised:
            parts.append(f"not exercised: {', '.join(self.unexercised)}")
        return ", ".join(parts)


def measure(
    cases: Sequence[Case],
    specs: Sequence[TensorSpec],
    compared_weights: Mapping[str, WeightComparison],
    findings: Sequence[Finding] = (),
    branch_counts: Mapping[str, float] | None = None,
) -> Coverage:
    """The coverage of the cases that were asked.

    `compared_weights` holds the comparisons of the proven candidates; `branch_counts` counts branches as `regions.judge` does.
    """
    counted = branch_counts or {}
    return Coverage(
        len({number for case in cases for number in case.rows}),
        _sizes(cases, specs),
        {spec.name: share for spec in specs if (share := _ids(cases, spec)) is not None},
        (int(counted.get("sides", 0)), int(counted.get("sides_exercised", 0))),
        min((one.compared_share for one in compared_weights.values()), default=None),
        _left(compared_weights),
        tuple(finding.layer or finding.message for finding in findings if finding.kind == NOT_EXERCISED),
        _batches(cases, specs),
    )


def _batches(cases: Sequence[Case], specs: Sequence[TensorSpec]) -> str:
    batch = batch_dimension(specs)
    return batches.describe([sizes_of(specs, case.inputs)[batch] for case in cases]) if batch else ""


def _sizes(cases: Sequence[Case], specs: Sequence[TensorSpec]) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}
    for spec in specs:
        for axis, name in enumerate(spec.shape):
            if isinstance(name, str) and name not in sizes:
                seen = [case.inputs[spec.name].shape[axis] for case in cases]
                sizes[name] = (min(seen), max(seen))
    return sizes


def _ids(cases: Sequence[Case], spec: TensorSpec) -> float | None:
    """The share of a declared integer range that was asked; None for other inputs."""
    low, high = spec.low, spec.high
    if low is None or high is None or isinstance(low, str) or isinstance(high, str):
        return None
    if spec.numpy_dtype.kind not in "iu" or high - low >= _MOST_IDS:
        return None
    asked = np.zeros(int(high - low) + 1, bool)
    for case in cases:
        values = case.inputs[spec.name].ravel()
        asked[(values[(values >= low) & (values <= high)] - int(low)).astype(np.int64)] = True
    return float(asked.mean())


def _left(compared_weights: Mapping[str, WeightComparison]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for one in compared_weights.values():
        for why, share in one.left().items():
            shares[_WHY[why]] = max(shares.get(_WHY[why], 0.0), share)
    return shares


def _span(smallest: int, largest: int) -> str:
    return str(smallest) if smallest == largest else f"{smallest} to {largest}"


def _percent(share: float) -> str:
    """A share with enough digits that less than all is never 100%, and more than none never 0%."""
    if share in (0, 1):
        return f"{share:.0%}"
    for digits in range(4):
        if 0 < round(share, 2 + digits) < 1:
            return f"{share:.{digits}%}"
    return "over 99.99%" if share > 0.5 else "under 0.01%"
