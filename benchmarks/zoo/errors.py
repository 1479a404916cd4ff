"""Models that Paddle refuses to export, mostly with words that name neither the line nor the remedy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, specimen


class Base(nn.Layer):
    """One projection, which all models of this file share."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)


class MathOfTensor(Base):
    """`float()` of a tensor is rewritten; what `math` makes of it is not."""

    def forward(self, x: Any) -> Any:
        temperature = math.exp(float(x.abs().mean()))  # <- python-value
        return self.project(x) * temperature


class IndexOfTensor(Base):
    def forward(self, x: Any) -> Any:
        scale = [0.5, 1.0, 2.0][int((x[0, 0] > 0).astype("int64"))]  # <- python-value
        return self.project(x) * scale


class RootOfLength(nn.Layer):
    """Scales by the root of a dynamic dimension, computed by `math`."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.project(x).sum(axis=1) / math.sqrt(x.shape[1])  # <- python-value


class ListOfTensor(Base):
    def forward(self, x: Any) -> Any:
        order = paddle.argsort(x.sum(axis=0)).tolist()  # <- python-value
        return self.project(x) * float(order[0])


class GreaterOfTwo(Base):
    def forward(self, x: Any) -> Any:
        y = self.project(x)
        scale = max(y.mean(), y.max())  # <- python-value
        return y * scale


class NumpyOnTensor(Base):
    def forward(self, x: Any) -> Any:
        ordered = np.sort(x.numpy(), axis=1)  # <- python-value
        return self.project(paddle.to_tensor(ordered))


class NumpyPositions(nn.Layer):
    """Counts the places of a dynamic dimension with numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        places = np.arange(x.shape[1])  # <- python-value
        return self.project(x) + paddle.to_tensor(places, dtype="float32").unsqueeze(-1)


class AnyOfTensors(Base):
    def forward(self, x: Any) -> Any:
        y = self.project(x)
        positive = any(y[:, i].sum() > 0 for i in range(4))  # <- python-value
        return y if positive else -y


class FilteredParts(Base):
    """Chooses columns in a list comprehension, whose condition Paddle does not rewrite."""

    def forward(self, x: Any) -> Any:
        y = self.project(x)
        kept = [y[:, i] for i in range(4) if y[:, i].mean() > -100.0]  # <- python-value
        return paddle.stack(kept, axis=1)


class GuardsAgainstEmpty(nn.Layer):
    """Averages unless there is nothing to average, by the size of a dynamic dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.project(x)
        if y.shape[1] > 0:  # <- dynamic-shape-branch
            y = y.mean(axis=1)
        return y


class GivesUp(Base):
    """Gives nothing for an answer that is out of all bounds."""

    def forward(self, x: Any) -> Any:
        y = self.project(x)
        if y.abs().max() > 1e6:  # <- branch-mismatch
            return None
        return y


class SometimesWhole(Base):
    """Makes whole numbers on one side and floats on the other."""

    def forward(self, x: Any) -> Any:
        y = self.project(x)
        if y.sum() > 0:  # <- branch-mismatch
            weight = (y > 0).astype("int64")
        else:
            weight = y * 0.5
        return y * weight.astype("float32")


class ScalesItsWeights(Base):
    """Normalises its weight in place at every call (a home-made weight norm)."""

    def forward(self, x: Any) -> Any:
        self.project.weight.set_value(self.project.weight / self.project.weight.norm())  # <- parameter-assignment
        return self.project(x)


class WritesThroughView(Base):
    def forward(self, x: Any) -> Any:
        y = self.project(x)
        first = y[:, :2]
        first.add_(paddle.ones_like(first))  # <- graph-break
        return y


class IgnoredInput(Base):
    def forward(self, x: Any, lengths: Any) -> Any:  # <- unused-input
        return self.project(x)


class AnyInputs(Base):
    def forward(self, *features: Any) -> Any:  # <- signature
        return self.project(features[0] + features[1])


class NotCalledSelf(Base):
    def forward(this, x: Any) -> Any:  # <- signature
        return this.project(x)


class LayerInForward(Base):
    def forward(self, x: Any) -> Any:
        adapter = nn.Linear(8, 8)  # <- layer-in-forward
        return self.project(F.relu(adapter(x)))


class GrowingParts(Base):
    """Collects slices of growing length in a loop over a tensor: exports, and fails when it is run."""

    def forward(self, x: Any) -> Any:
        parts = []
        i = paddle.zeros([1], dtype="int64")
        while i < 3:
            parts.append(self.project(x)[:, : i + 1])  # <- graph-break
            i += 1
        return paddle.concat(parts, axis=1)


class StrictZip(nn.Layer):
    """Goes through its layers with `zip(…, strict=True)`, which Paddle's own zip does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.scales = [0.5, 2.0]

    def forward(self, x: Any) -> Any:
        for layer, scale in zip(self.layers, self.scales, strict=True):  # <- graph-break
            x = layer(x) * scale
        return x


class FixedNames(nn.Layer):
    """Names its weight by hand, so that two instances in one process fight over the name."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4, weight_attr=paddle.ParamAttr(name="projection_weight"))

    def forward(self, x: Any) -> Any:
        return self.project(x)


class WrongWidth(Base):
    def forward(self, x: Any) -> Any:
        return self.project(x[:, :7])  # <- bad-model


class UnknownChannels(Base):
    """A generator: gives the batch's size by hand, and leaves the number of channels to reshape."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 64)
        self.grow = nn.Conv2DTranspose(4, 3, 4, 2, 1)

    def forward(self, x: Any) -> Any:
        seeds = self.project(x).reshape([x.shape[0], -1, 4, 4])
        return self.grow(seeds)  # <- graph-break


def not_a_layer() -> Any:
    """A factory that gives the class and not an instance."""
    return Base


def absent_file() -> Any:
    """A factory that loads weights from a file that does not exist."""
    return paddle.load("weights/that/nobody/has.pdparams")  # <- bad-model


X = floats("x", 8)
ROWS = floats("x", "length", 8)
SPECIMENS: list[Specimen] = [
    specimen(MathOfTensor, X, finding="python-value", also=("batch-dependent",), because="math needs the number while converting"),
    specimen(
        IndexOfTensor, X, finding="python-value", also=("batch-dependent",), because="a list's index must be a number while converting"
    ),
    specimen(RootOfLength, ROWS, finding="python-value", because="a dynamic size is a tensor while converting"),
    specimen(ListOfTensor, X, finding="python-value", also=("batch-dependent",), because=".tolist() needs the values while converting"),
    specimen(GreaterOfTwo, X, finding="python-value", also=("batch-dependent",), because="Python's max() compares tensors"),
    specimen(NumpyOnTensor, X, finding="python-value", because="numpy reads the tensor while converting"),
    specimen(NumpyPositions, ROWS, finding="python-value", because="a dynamic size is a tensor while converting"),
    specimen(AnyOfTensors, X, finding="python-value", also=("batch-dependent",), because="any() asks tensors for their truth"),
    specimen(FilteredParts, X, finding="python-value", because="a comprehension's condition is not rewritten"),
    specimen(GuardsAgainstEmpty, ROWS, finding="dynamic-shape-branch", because="the sides differ in rank"),
    specimen(GivesUp, X, finding="branch-mismatch", because="one side gives nothing"),
    specimen(SometimesWhole, X, finding="branch-mismatch", also=("batch-dependent",), because="the sides differ in dtype"),
    specimen(ScalesItsWeights, X, finding="parameter-assignment", because="a parameter cannot be written in a static graph"),
    specimen(WritesThroughView, X, finding="graph-break", because="a view cannot be written in a static graph"),
    specimen(IgnoredInput, X, floats("lengths", 1), finding="unused-input", because="the export drops the input, or fails over it"),
    specimen(AnyInputs, X, floats("z", 8), finding="signature", because="*args has no names"),
    specimen(NotCalledSelf, X, finding="signature", because="Paddle looks for an argument named self"),
    specimen(LayerInForward, X, finding="layer-in-forward", because="its weights are new at every call"),
    specimen(GrowingParts, X, finding="graph-break", because="a tensor array holds parts of one shape; it fails when it is run"),
    specimen(StrictZip, X, finding="graph-break", because="zip(strict=True) is rewritten to a zip without strict"),
    specimen(UnknownChannels, X, finding="graph-break", because="the channels are lost in a reshape that is given the batch's size"),
    specimen(FixedNames, X, because="a fresh process has no other instance"),
    specimen(WrongWidth, X, finding="bad-model", because="forward fails in eager mode"),
    specimen(not_a_layer, X, finding="bad-model", because="the factory gives a class"),
    specimen(absent_file, X, finding="bad-model", because="the factory fails"),
]
