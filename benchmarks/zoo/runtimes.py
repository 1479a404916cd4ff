"""Models that convert well, and that oneDNN or the way to ONNX get wrong; and two that have no float64 form."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, ids, image, specimen


class Upsampler(nn.Layer):
    """Doubles a picture's size."""

    def __init__(self) -> None:
        super().__init__()
        self.refine = nn.Conv2D(3, 3, 3, padding=1)

    def forward(self, image: Any) -> Any:
        larger = F.interpolate(image, scale_factor=2, mode="bilinear")  # <- unsupported-operator
        return self.refine(larger)


class LeakyConvolution(nn.Layer):
    """A convolution and a leaky ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3)

    def forward(self, image: Any) -> Any:
        return F.leaky_relu(self.conv(image), 0.1)  # <- crash


class GramMatrix(nn.Layer):
    """Multiplies a feature map with itself, as style losses do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3, padding=1)

    def forward(self, image: Any) -> Any:
        features = self.conv(image)
        return paddle.matmul(features, features)  # <- wrong-layer


class ChannelsLast(nn.Layer):
    """Conv1D in NLC layout, then a classifier over time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1D(8, 16, 3, padding=1, data_format="NLC")
        self.head = nn.Linear(16, 4)

    def forward(self, signal: Any) -> Any:
        return self.head(F.relu(self.conv(signal))).sum(axis=1)  # <- another-form


class ChannelsLastRecurrent(nn.Layer):
    """Conv1D in NLC layout, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1D(8, 16, 3, padding=1, data_format="NLC")
        self.gru = nn.GRU(16, 8)

    def forward(self, signal: Any) -> Any:
        return self.gru(self.conv(signal))[0]  # <- conversion-failed


class NormOverAll(nn.Layer):
    """Layer norm over channels, height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(3, 4, 3, padding=1)
        self.norm = nn.LayerNorm([4, 16, 16])

    def forward(self, image: Any) -> Any:
        return self.norm(self.conv(image))  # <- conversion-failed


class LeakyHidden(nn.Layer):
    """A leaky ReLU, whose slope is a double in Paddle's file, which the way to ONNX may lose."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(F.leaky_relu(self.hidden(x), 0.2))


class ClippedHidden(nn.Layer):
    """A hard tanh with bounds that paddle2onnx ignores."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(F.hardtanh(self.hidden(x), -0.3, 0.4))


class TanhGelu(nn.Layer):
    """GELU by its tanh formula, which paddle2onnx converts to the exact formula: off by 2e-4, less than a usual tolerance finds."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(F.gelu(self.hidden(x), approximate=True))


class GroupedNorm(nn.Layer):
    """A convolution and a group norm, whose epsilon is a double in Paddle's file, which the way to ONNX may lose."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2D(3, 8, 3), nn.GroupNorm(4, 8)

    def forward(self, image: Any) -> Any:
        return F.relu(self.norm(self.conv(image)))


class AttentionOverPixels(nn.Layer):
    """Attends to all pixels of a picture, normalised in groups while they lie in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.ReLU())
        self.norm, self.mix = nn.GroupNorm(2, 8), nn.Conv1D(8, 8, 1)

    def forward(self, image: Any) -> Any:
        pixels = self.stem(image).flatten(2)
        normal = self.norm(pixels)
        return F.softmax(self.mix(normal), axis=-1).matmul(pixels.transpose([0, 2, 1]))


class LargeKeys(nn.Layer):
    """Hashes large keys; on the way to ONNX the product becomes float32, which is exact up to 2**24 only."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 8)

    def forward(self, keys: Any) -> Any:
        return self.embed((keys * 31 + 7) % 97).sum(axis=1)  # <- wrong-layer


class DoublePrecision(nn.Layer):
    """Computes one part in float64 by name, and so it does not run in one precision."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        centred = x.astype("float64") - x.astype("float64").mean(axis=-1, keepdim=True)
        return self.head(centred.astype("float32"))


class LockedToFloat32(nn.Layer):
    """Multiplies with a constant that is float32 by name, so that a float64 form of it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        mixing = paddle.eye(4, dtype="float32") * 0.9 + 0.1
        return paddle.matmul(self.head(x), mixing)


BITMAP = image(16)
SIGNAL = floats("signal", "time", 8)
ONEDNN: Any = {"proven": ("paddle",), "refused": ("paddle-onednn",)}
ONNX: Any = {"proven": ("paddle",), "refused": ("onnxruntime",)}
BOTH = ("paddle", "onnxruntime")
SPECIMENS: list[Specimen] = [
    specimen(Upsampler, image(16), finding="unsupported-operator", **ONEDNN, because="oneDNN: interpolate"),
    specimen(LeakyConvolution, BITMAP, finding="crash", **ONEDNN, because="oneDNN crashes on it"),
    specimen(GramMatrix, BITMAP, finding="wrong-layer", **ONEDNN, because="oneDNN answers wrong"),
    specimen(ChannelsLast, floats("signal", 16, 8), finding="another-form", **ONEDNN, because="oneDNN: wrong shape"),
    specimen(ChannelsLastRecurrent, SIGNAL, finding="conversion-failed", **ONEDNN, because="oneDNN throws"),
    specimen(NormOverAll, BITMAP, finding="conversion-failed", **ONEDNN, because="oneDNN throws"),
    specimen(LeakyHidden, floats("x", 8), proven=BOTH, because="the slope is kept"),
    specimen(ClippedHidden, floats("x", 8), proven=BOTH, because="the bounds are kept"),
    specimen(TanhGelu, floats("x", 8), proven=BOTH, because="the formula is kept"),
    specimen(GroupedNorm, BITMAP, proven=BOTH, because="epsilon is kept"),
    specimen(AttentionOverPixels, BITMAP, proven=BOTH, because="paddle2onnx by itself normalises only pictures in groups"),
    specimen(LargeKeys, ids("keys", 2**40, 5), finding="wrong-layer", **ONNX, because="whole numbers become float32"),
    specimen(DoublePrecision, floats("x", 8), because="precision by name is kept"),
    specimen(LockedToFloat32, floats("x", 8), because="no truth in float64: judged by eager's own noise"),
]
