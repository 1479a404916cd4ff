"""Small models of every kind for the faults, with seeded weights and outputs from 1e-7 to 50."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from paddleship.config.sections.model import Input

VOCABULARY, LENGTH, STEPS = 50, 12, 24


class ConvolutionalNet(nn.Layer):
    """Convolutions with batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(), nn.Conv2D(8, 8, 3, stride=2), nn.BatchNorm2D(8), nn.ReLU()
        )
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        return {"logits": self.head(self.dropout(self.features(image).mean([2, 3])))}


class DepthwiseNet(nn.Layer):
    """Depthwise convolutions, with outputs around 1e-7 as an untrained mobile network has them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(3, 8, 1),
            nn.BatchNorm2D(8),
            nn.Hardswish(),
            nn.Conv2D(8, 8, 3, padding=1, groups=8),
            nn.BatchNorm2D(8),
            nn.Hardswish(),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        return {"logits": self.head(self.features(image).mean([2, 3])) * 1e-7}


class Recurrent(nn.Layer):
    """An LSTM over ids; the answer is its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.lstm = nn.LSTM(8, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, ids: Any) -> Any:
        _, (state, _) = self.lstm(self.embed(ids))
        return {"logits": self.head(state[-1])}


class Attention(nn.Layer):
    """A transformer layer with a padding mask, mean pooling, and outputs around 50."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1)
        self.head = nn.Linear(16, 4)

    def forward(self, ids: Any) -> Any:
        mask = (ids != 0).astype(self.head.weight.dtype)
        hidden = self.layer(self.embed(ids), src_mask=(mask.unsqueeze([1, 2]) - 1.0) * 1e4)
        pooled = (hidden * mask.unsqueeze(-1)).sum(1) / (mask.sum(1, keepdim=True) + 1e-6)
        return {"logits": self.head(pooled) * 50.0}


class TwoTowers(nn.Layer):
    """Two inputs, two outputs of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, left: Any, right: Any) -> Any:
        one, two = self.norm(self.left(left)), self.norm(self.right(right))
        return {"sum": F.gelu(one + two), "difference": F.gelu(one - two)}


class Branching(nn.Layer):
    """A branch and a loop that depend on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.calm, self.wild = nn.Linear(6, 3), nn.Linear(6, 3)
        self.frozen = False

    def forward(self, x: Any) -> Any:
        if self.frozen:
            return self.calm(x)
        if x.sum() > 0:  # noqa: SIM108, a branch is what is tested
            y = self.calm(x)
        else:
            y = self.wild(x)
        return y


class Tagger(nn.Layer):
    """Scores and the id of the best class, over a masked mean of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, ids: Any) -> Any:
        mask = (ids != 0).astype(self.head.weight.dtype).unsqueeze(-1)
        logits = self.head((self.embed(ids) * mask).sum(1) / (mask.sum(1) + 1e-6))
        return {"logits": logits, "label": logits.argmax(-1)}


class Seasonal(nn.Layer):
    """A series weighted by the strongest frequencies of its whole batch; it runs in float32 only, also operator by operator."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave, self.norm = nn.Linear(3, 8), nn.Linear(8, 3), nn.LayerNorm(8)
        steps = np.arange(STEPS)
        waves = 2 * np.pi * steps[:, None] * np.arange(1, 9) / STEPS
        self.register_buffer("cosines", paddle.to_tensor(np.cos(waves).astype("float32")))
        self.register_buffer("sines", paddle.to_tensor(np.sin(waves).astype("float32")))

    def forward(self, x: Any) -> Any:
        size = {paddle.float32: 1.0}[x.dtype]
        series = x.transpose([0, 2, 1])
        strength = ((series @ self.cosines) ** 2 + (series @ self.sines) ** 2).mean([0, 1]) * size / STEPS
        wave = (self.cosines * F.softmax(4.0 * strength)).sum(-1)
        return {"series": self.leave(self.norm(F.gelu(self.enter(x) * (1.0 + 4.0 * wave.unsqueeze(-1)))))}


_IMAGE = [Input(name="image", dtype="float32", shape=["batch", 3, 12, 12])]
_IDS = [Input(name="ids", dtype="int64", shape=["batch", "length"], low=0, high=VOCABULARY - 1)]
_PAIR = [Input(name=name, dtype="float32", shape=["batch", 6]) for name in ("left", "right")]
_SERIES = [Input(name="x", dtype="float32", shape=["batch", STEPS, 3])]
_ROW = [Input(name="x", dtype="float32", shape=["batch", 6])]

INPUTS: dict[str, list[Input]] = {
    "ConvolutionalNet": _IMAGE,
    "DepthwiseNet": _IMAGE,
    "Recurrent": _IDS,
    "Attention": _IDS,
    "TwoTowers": _PAIR,
    "Branching": _ROW,
    "Tagger": _IDS,
    "Seasonal": _SERIES,
}

FLOAT32_ONLY = frozenset({"Seasonal"})  # no truth, and answers that depend on the batch


def build(name: str, change: str | None = None) -> nn.Layer:
    """The model, with statistics and biases as after training, and with the fault `change` in its code if given."""
    layer: nn.Layer = globals()[name]()
    dtype = paddle.get_default_dtype()
    for path, parameter in layer.named_parameters():
        if "bias" in path:
            parameter.set_value(np.abs(np.linspace(-0.2, 0.2, parameter.shape[0])).astype(dtype))  # the first weight ties with the last
    for part in layer.sublayers():
        if isinstance(part, nn.BatchNorm2D):
            part._mean.set_value(np.linspace(-0.5, 0.5, part._mean.shape[0]).astype(dtype))
            part._variance.set_value(np.linspace(0.5, 2, part._variance.shape[0]).astype(dtype))
    if change:
        CHANGES[change](layer)
    return layer


def _drop(layer: nn.Layer) -> None:
    for part in layer.sublayers():
        if isinstance(part, nn.Dropout):
            # by hand, because export removes F.dropout from the program in any mode
            part.forward = lambda x, rate=part.p: x * (paddle.rand(paddle.shape(x)) >= rate).astype(x.dtype) / (1 - rate)


def _use_batch_statistics(layer: nn.Layer) -> None:
    for part in layer.sublayers():
        if isinstance(part, nn.BatchNorm2D):
            part.forward = lambda x, norm=part: F.instance_norm(x, weight=norm.weight, bias=norm.bias)


def _widen_epsilon(layer: nn.Layer) -> None:
    for part in layer.sublayers():
        if hasattr(part, "_epsilon"):
            part._epsilon = 1e-3


def _approximate(layer: nn.Layer) -> None:
    def gelu(x: Any) -> Any:  # the formula, because paddle2onnx writes the exact one for any `approximate`
        return 0.5 * x * (1 + paddle.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))

    def forward(left: Any, right: Any) -> Any:
        one, two = layer.norm(layer.left(left)), layer.norm(layer.right(right))
        return {"sum": gelu(one + two), "difference": gelu(one - two)}

    layer.forward = forward


def _freeze(layer: nn.Layer) -> None:
    layer.frozen = True


def _scaled(layer: nn.Layer, factor: Callable[[], float]) -> None:
    """Let the first output depend on something that is not an input."""
    forward = layer.forward

    def scaled(*inputs: Any) -> Any:
        answer = forward(*inputs)
        if not isinstance(answer, dict):
            return answer * factor()
        first = next(iter(answer))
        return {**answer, first: answer[first] * factor()}

    layer.forward = scaled


def _tell_the_time(layer: nn.Layer) -> None:
    _scaled(layer, lambda: 1 + time.localtime().tm_yday / 366)


def _read_the_environment(layer: nn.Layer) -> None:
    _scaled(layer, lambda: float(os.environ.get("TEMPERATURE", "1.0")))


def _count(layer: nn.Layer) -> None:
    asked = iter(range(1_000_000))
    _scaled(layer, lambda: 1.0 + (next(asked) > 40))


CHANGES: dict[str, Callable[[nn.Layer], None]] = {
    "dropout": _drop,
    "statistics": _use_batch_statistics,
    "epsilon": _widen_epsilon,
    "approximate": _approximate,
    "frozen": _freeze,
    "clock": _tell_the_time,
    "environment": _read_the_environment,
    "count": _count,
}
