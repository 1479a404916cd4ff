"""Whether eager float32 is accurate enough to be the unit of the proof: not with TF32, and not if its own error is far above rounding.

On an NVIDIA GPU, TF32 keeps 10 of the 23 bits of float32 in matrix products and convolutions. In the unit of such an answer, wrong
candidates are right. It is found by a product whose result TF32 cannot hold, whatever the model is, and by the error of the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.proof.evidence import EPSILON, MEASURED_NOISE, ROWS, Evidence
from paddleship.reports.finding import Finding

NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0"}  # the variable of a process in which NVIDIA's libraries do not use TF32
LARGEST, MEDIAN = 1000 * EPSILON, 100 * EPSILON  # of the scale; honest networks have 3e-7 to 4e-6, TF32 about a thousand times that
_BEYOND_TF32 = np.float32(1 + 2.0**-12)  # float32 holds it, TF32 rounds it to 1
_SIZE = 64  # of the matrices, so that a GPU uses the units that may round


@dataclass(frozen=True)
class EagerArithmetic:
    """Where eager computed, and which of its operators round float32 to fewer bits; empty if none does."""

    device: str
    rounding: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.device}, float32" + (f" with {' and '.join(self.rounding)} in TF32" if self.rounding else "")


def measure() -> EagerArithmetic:
    """The arithmetic of eager Paddle in this process, found by a product and a convolution."""
    import paddle

    def product(one: Array, other: Array) -> Array:
        result: Array = paddle.matmul(paddle.to_tensor(one), paddle.to_tensor(other)).numpy()
        return result

    def convolution(one: Array, other: Array) -> Array:
        picture, filters = paddle.to_tensor(one.T[None, :, :, None]), paddle.to_tensor(other.T[:, :, None, None])
        result: Array = paddle.nn.functional.conv2d(picture, filters).numpy()[0, :, :, 0].T
        return result

    found = {"matrix products": product, "convolutions": convolution}
    return EagerArithmetic(paddle.device.get_device(), tuple(name for name, function in found.items() if rounds(function)))


def rounds(product: Callable[[Array, Array], Array]) -> bool:
    """Whether a function for matrix products of float32 rounds its inputs to fewer bits than float32 has."""
    matrix = np.full((_SIZE, _SIZE), _BEYOND_TF32, np.float32)
    return not np.array_equal(product(matrix, np.eye(_SIZE, dtype=np.float32)), matrix)


def findings(evidence: Evidence, arithmetic: EagerArithmetic) -> list[Finding]:
    """An error if eager rounds to TF32, and one for each output of eager that is too far from the truth to be a unit."""
    found = []
    if arithmetic.rounding:
        message = (
            f"eager computes on {arithmetic}, so its own error is up to a thousand times float32's: nothing can be proven in that unit"
        )
        found.append(Finding("inaccurate-reference", "error", message, "set NVIDIA_TF32_OVERRIDE=0, or run verify on the CPU"))
    if evidence.rule == MEASURED_NOISE:  # which has a ceiling
        return found
    for name, noise in evidence.noise[ROWS].items():
        if evidence.reference[0][name].dtype.kind != "f" or noise.largest <= LARGEST * noise.scale:
            continue
        if (middle := _median_row(evidence, name)) > MEDIAN * noise.scale:
            message = (
                f"eager's own {name} is off by up to {noise.largest / noise.scale / EPSILON:,.0f} × float32's rounding "
                f"(median of the rows {middle / noise.scale / EPSILON:,.0f} ×, {arithmetic}): nothing can be proven in that unit"
            )
            elsewhere = (
                "declare values that the model takes, because an index out of range reads other memory"
                if arithmetic.device == "cpu"
                else "run eager without TF32 (on the CPU, or NVIDIA_TF32_OVERRIDE=0)"
            )
            advice = f"{elsewhere}, or compute what cancels or amplifies rounding in float64"
            found.append(Finding("inaccurate-reference", "error", message, advice))
    return found


def _median_row(evidence: Evidence, name: str) -> float:
    """The median over rows of the largest distance between eager and the truth in a row; a few rows that float32 does not determine
    do not matter for it.
    """
    largest: list[float] = []
    for index in evidence.groups[ROWS]:
        case, own = evidence.cases[index], evidence.reference[index][name]
        distances = differences.elementwise_distance(own, evidence.truth[index][name])
        rows = distances.reshape(len(own), -1) if own.ndim and len(own) == len(case.rows) else distances.reshape(1, -1)
        largest += [float(row.max(initial=0)) for row in rows]
    return float(np.median([one for one in largest if np.isfinite(one)] or [0.0]))
