"""Models that export without a word and then answer differently from what their author saw."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, specimen

STEPS = 0


class RememberedScale(nn.Layer):
    """Computes a scale once, on the first batch it ever sees, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)
        self.scale: Any = None

    def forward(self, x: Any) -> Any:
        if self.scale is None:
            self.scale = x.abs().mean() + 1.0  # <- stale-tensor
        return self.project(x) / self.scale


class PreviousFrame(nn.Layer):
    """Mixes in the features of the batch before, as video models do."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(8, 4)
        self.previous = paddle.zeros([1, 4])

    def forward(self, frame: Any) -> Any:
        features = self.encode(frame)
        answer = features + 0.5 * self.previous
        self.previous = features.mean(axis=0, keepdim=True)  # <- stale-tensor
        return answer


class CallCounter(nn.Layer):
    """Weighs its answer by the number of calls, which it keeps in a module's variable."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        global STEPS
        STEPS += 1  # <- global-state
        return self.project(x) * (1.0 + 1.0 / STEPS)


class ForgottenTraining(nn.Layer):
    """Calls functional dropout without `training=self.training`."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        x = F.dropout(F.relu(self.hidden(x)), 0.5)  # <- random-forward
        return self.head(x)


class NoisyFeatures(nn.Layer):
    """Adds Gaussian noise for robustness, in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(x + 0.1 * paddle.randn(x.shape))  # <- random-forward


class BatchStatistics(nn.Layer):
    """Normalises with the statistics of the batch at hand, as a functional batch norm in train mode does."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 6)
        self.register_buffer("mean", paddle.zeros([6]))
        self.register_buffer("variance", paddle.ones([6]))

    def forward(self, x: Any) -> Any:
        return F.batch_norm(self.hidden(x), self.mean, self.variance, training=True)  # <- train-mode


class AlwaysTraining(nn.Layer):
    """Puts its dropout back in train mode at every call (Monte Carlo dropout)."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        self.drop.train()  # <- train-mode
        return self.head(self.drop(x))


class PlainListOfLayers(nn.Layer):
    """Keeps its hidden layers in a Python list."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Linear(8, 8), nn.Linear(8, 8)]  # <- unregistered-layer
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.head(x)


class PlainDictOfHeads(nn.Layer):
    """Keeps one head per task in a Python dict."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.heads = {"age": nn.Linear(8, 1), "topic": nn.Linear(8, 4)}  # <- unregistered-layer

    def forward(self, x: Any) -> Any:
        features = F.relu(self.trunk(x))
        return {name: head(features) for name, head in self.heads.items()}


class OneNameForTwo(nn.Layer):
    """Adds two blocks under one name; the second takes the first one's place in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        blocks = []
        for _ in range(2):
            block = nn.Linear(8, 8)
            self.add_sublayer("block", block)  # <- shared-name
            blocks.append(block)
        self.first, self.second = blocks[0].forward, blocks[1].forward

    def forward(self, x: Any) -> Any:
        return self.second(F.relu(self.first(x)))


class CentredBatch(nn.Layer):
    """Subtracts the mean over the batch, so that a row's answer depends on its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        y = self.project(x)
        return y - y.mean(axis=0, keepdim=True)


class CountsCalls(nn.Layer):
    """Counts its calls in a buffer, and answers by it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)
        self.register_buffer("calls", paddle.zeros([1]))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1.0  # <- parameter-assignment
        return self.project(x) / self.calls


class ShrinksItsWeights(nn.Layer):
    """Shrinks a weight in place at every call; the program answers with the one that is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        self.project.weight.clip_(-0.1, 0.1)  # <- parameter-assignment
        return self.project(x)


class DerivesItsKernel(nn.Layer):
    """Keeps a kernel, made from a weight at every call, in a buffer."""

    kernel: Any

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([8, 8])
        self.register_buffer("kernel", paddle.zeros([8, 8]), persistable=False)

    def forward(self, x: Any) -> Any:
        self.kernel = self.weight / paddle.linalg.norm(self.weight)  # <- stale-tensor
        return F.linear(x, self.kernel)


class NanWeights(nn.Layer):
    """Was trained until it diverged."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)
        self.head.weight.set_value(self.head.weight * float("nan"))

    def forward(self, x: Any) -> Any:
        return self.head(x)


X = floats("x", 8)
SPECIMENS: list[Specimen] = [
    specimen(
        RememberedScale,
        X,
        finding="stale-tensor",
        also=("batch-dependent",),
        because="an instance that was called before exports its first batch's scale",
    ),
    specimen(PreviousFrame, X, finding="stale-tensor", also=("batch-dependent",), because="the program keeps the frame of the export"),
    specimen(CallCounter, X, finding="global-state", because="the program keeps the count of the export"),
    specimen(ForgottenTraining, X, finding="random-forward", because="drops in eager evaluation, and not after export"),
    specimen(NoisyFeatures, X, finding="random-forward", because="no two answers are alike"),
    specimen(
        BatchStatistics, X, finding="train-mode", also=("batch-dependent", "parameter-assignment"), because="evaluation is not evaluation"
    ),
    specimen(AlwaysTraining, X, finding="train-mode", also=("random-forward",), because="evaluation is not evaluation"),
    specimen(PlainListOfLayers, X, finding="unregistered-layer", because="the weights are not in state_dict"),
    specimen(PlainDictOfHeads, X, finding="unregistered-layer", because="the weights are not in state_dict"),
    specimen(OneNameForTwo, X, finding="shared-name", because="the first block's weights are not in state_dict"),
    specimen(CentredBatch, X, finding="batch-dependent", proven=("paddle",), because="a server that batches changes the answer"),
    specimen(CountsCalls, X, finding="parameter-assignment", because="the answer depends on what was asked before"),
    specimen(ShrinksItsWeights, X, finding="parameter-assignment", because="what export writes to a parameter is lost"),
    specimen(
        DerivesItsKernel,
        X,
        finding="stale-tensor",
        also=("wrong-layer", "program-departs"),
        because="a conversion does not assign to buffers",
    ),
    specimen(NanWeights, X, finding="nan-weights", because="no answer can be compared"),
]
