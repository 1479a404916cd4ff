"""Models whose way through the code depends on their input, and what an export makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, specimen


class Gated(nn.Layer):
    """Takes one of two experts by the sign of the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        if x.mean() > 0:
            y = self.large(x)
        else:
            y = self.small(x)
        return y


class HalvesUntilSmall(nn.Layer):
    """Halves its answer until it is small: the number of rounds is the input's affair, and may be none."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        while y.abs().max() > 1.0:
            y = y * 0.5
        return y


class NestedDecision(nn.Layer):
    """A decision inside a decision inside a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        rounds = paddle.zeros([], dtype="int64")
        while rounds < 3:
            if x.mean() > 0:
                if x.max() > 1.0:
                    x = F.tanh(self.step(x))
                else:
                    x = x + 0.5
            else:
                x = self.step(x) + 1.0
            rounds = rounds + 1
        return x


class EarlyReturn(nn.Layer):
    """Returns early from a quiet input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        if y.abs().mean() < 0.3:
            return paddle.zeros_like(y)
        return F.relu(y)


class NeverLoud(nn.Layer):
    """Has a side for an input that cannot be within its declared range."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        if x.max() > 5.0:  # <- uncovered-branch
            y = y / x.max()
        return y


class ConfiguredDepth(nn.Layer):
    """Branches and loops on its configuration: nothing here depends on the input."""

    def __init__(self, depth: int = 3, *, residual: bool = True) -> None:
        super().__init__()
        self.blocks = nn.LayerList([nn.Linear(8, 8) for _ in range(depth)])
        self.residual = residual

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + F.relu(block(x)) if self.residual else F.relu(block(x))
        return x


class EagerShortcut(nn.Layer):
    """Takes the right way in eager mode only, by asking Paddle for its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        if paddle.in_dynamic_mode():  # <- frozen-branch
            x = F.normalize(x)
        return self.head(x)


class AsksForTensor(nn.Layer):
    """Also accepts numpy arrays, and checks the type: a Tensor in eager mode is not a Tensor during the export."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        if isinstance(x, paddle.Tensor):  # <- frozen-branch
            x = x / x.norm(axis=-1, keepdim=True)
        return self.head(x)


class ReadsValues(nn.Layer):
    """Reads values in the ways that Paddle rewrites: int() in a slice and a range, float() and item() in arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        for _ in range(int((x[0] > 0).astype("int64").sum()) % 4):
            y = y * 0.5
        return y * float(x[0, 0]) + x[0, 1].item()


class ShortcutForLong(nn.Layer):
    """Treats long rows differently; the sides are of one form."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        if x.shape[1] > 16:
            y = y - 1.0
        return y.sum(axis=1)


class SwallowedError(nn.Layer):
    """Falls back to a constant when it cannot read the value, which it never can while it is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def _temperature(self, x: Any) -> float:
        try:
            return 1.0 + abs(float(np.asarray(x).mean()))  # <- frozen-value
        except Exception:
            return 1.0

    def forward(self, x: Any) -> Any:
        return self.head(x) / self._temperature(x)


class LoopsOverRows(nn.Layer):
    """Loops over a dynamic dimension in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        state = paddle.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = F.tanh(self.cell(x[:, t]) + state)
        return state


class PositionTable(nn.Layer):
    """Builds positions with numpy from the size of a dynamic dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)
        self.register_buffer("table", paddle.randn([128, 8]))

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        return self.head(x + self.table[:length])


class FlattensByHand(nn.Layer):
    """Reshapes with the sizes that it reads from the shape, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        y = self.head(x.reshape([batch * length, width]))
        return y.reshape([batch, length, 2, 3])


X = floats("x", 8)
BOTH = ("paddle", "onnxruntime")
SPECIMENS: list[Specimen] = [
    specimen(Gated, X, proven=BOTH, also=("batch-dependent",), because="both sides are in the program, and both are asked"),
    specimen(HalvesUntilSmall, X, proven=BOTH, also=("batch-dependent",), because="the loop is in the program"),
    specimen(NestedDecision, X, proven=BOTH, also=("batch-dependent",), because="nesting survives"),
    specimen(EarlyReturn, X, proven=BOTH, also=("batch-dependent",), because="an early return is a side like any other"),
    specimen(NeverLoud, floats("x", 8, low=-1, high=1), finding="uncovered-branch", proven=("paddle",), because="no input takes that side"),
    specimen(ReadsValues, X, also=("batch-dependent",), because="what Paddle rewrites is no trap"),
    specimen(ShortcutForLong, floats("x", "length", 8), because="the size of a dynamic dimension decides in the program too"),
    specimen(ConfiguredDepth, X, because="what is decided before export may be decided by export"),
    specimen(EagerShortcut, X, finding="frozen-branch", refused=("paddle",), because="the program keeps the other side"),
    specimen(AsksForTensor, X, finding="frozen-branch", refused=("paddle",), because="what is exported is no paddle.Tensor"),
    specimen(
        SwallowedError, X, also=("batch-dependent",), finding="frozen-value", refused=("paddle",), because="the program keeps the fallback"
    ),
    specimen(LoopsOverRows, floats("x", "length", 8), because="range() over a dynamic dimension becomes a loop"),
    specimen(PositionTable, floats("x", "length", 8), because="a slice follows the dynamic dimension"),
    specimen(FlattensByHand, floats("x", "length", 8), because="a shape that is read stays dynamic"),
]
