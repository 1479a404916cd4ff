"""Convolutional models: healthy ones, a detection head, and those that oneDNN or the way to ONNX get wrong."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from tests.zoo.specimen import Specimen, floats, ids, image, specimen


class Residual(nn.Layer):
    """A residual block with batch norm, then a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.body = nn.Sequential(
            nn.Conv2D(8, 8, 3, padding=1, bias_attr=False), nn.BatchNorm2D(8), nn.ReLU(), nn.Conv2D(8, 8, 3, padding=1)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        x = F.relu(self.stem(image))
        x = F.relu(x + self.body(x))
        return self.head(x.mean(axis=[2, 3]))


class Depthwise(nn.Layer):
    """A separable block with hard swish and squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2D(3, 16, 1), nn.BatchNorm2D(16), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2D(16, 16, 3, stride=2, padding=1, groups=16), nn.BatchNorm2D(16), nn.Hardswish())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Conv2D(16, 4, 1), nn.ReLU(), nn.Conv2D(4, 16, 1), nn.Hardsigmoid())
        self.head = nn.Linear(16, 5)

    def forward(self, image: Any) -> Any:
        x = self.depthwise(self.expand(image))
        x = x * self.squeeze(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class OtherNorms(nn.Layer):
    """Group norm and instance norm."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 8, 3), nn.GroupNorm(4, 8), nn.Silu(), nn.Conv2D(8, 8, 3), nn.InstanceNorm2D(8), nn.PReLU(8))
        self.head = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        return self.head(self.body(image).max(axis=[2, 3]))


class AnySize(nn.Layer):
    """Fully convolutional, for pictures of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(8, 2, 1))

    def forward(self, image: Any) -> Any:
        return F.softmax(self.body(image), axis=1)


class DetectionHead(nn.Layer):
    """Boxes from a feature map, the best of which survive non-maximum suppression: as many as there are."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2D(3, 8, 3, stride=4, padding=1), nn.ReLU())
        self.boxes, self.scores = nn.Conv2D(8, 4, 1), nn.Conv2D(8, 1, 1)

    def forward(self, image: Any) -> Any:
        features = self.features(image)
        corners = self.boxes(features).transpose([0, 2, 3, 1]).reshape([-1, 4])
        scores = F.sigmoid(self.scores(features)).flatten()
        boxes = paddle.concat([corners[:, :2], corners[:, :2] + F.softplus(corners[:, 2:]) + 0.1], axis=1)
        kept = paddle.vision.ops.nms(boxes, 0.5, scores)
        return boxes[kept], scores[kept]


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
        return paddle.matmul(features, features)  # <- guilty-pass


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
    """A leaky ReLU with a slope that the way to ONNX may lose."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(F.leaky_relu(self.hidden(x), 0.2))  # <- wrong-layer


class LargeKeys(nn.Layer):
    """Hashes keys beyond 2**24, which a float32 modulo gets wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 8)

    def forward(self, keys: Any) -> Any:
        return self.embed(keys % 97).sum(axis=1)  # <- wrong-layer


class DoublePrecision(nn.Layer):
    """Computes one part in float64 by name, and cannot be had in one precision."""

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
SPECIMENS: list[Specimen] = [
    specimen(Residual, image(), because="batch norm is folded, the answer stays"),
    specimen(Depthwise, image(), because="depthwise convolution, hard swish, squeeze and excitation"),
    specimen(OtherNorms, image(), because="group norm, instance norm, PReLU"),
    specimen(AnySize, floats("image", 3, "height", "width"), because="three dynamic dimensions"),
    specimen(DetectionHead, image(), because="NMS: the number of boxes is the input's affair"),
    specimen(Upsampler, image(16), finding="unsupported-operator", **ONEDNN, because="oneDNN: interpolate"),
    specimen(LeakyConvolution, BITMAP, finding="crash", **ONEDNN, because="oneDNN dies of it"),
    specimen(GramMatrix, BITMAP, finding="guilty-pass", **ONEDNN, because="oneDNN answers wrong"),
    specimen(ChannelsLast, floats("signal", 16, 8), finding="another-form", **ONEDNN, because="oneDNN: wrong shape"),
    specimen(ChannelsLastRecurrent, SIGNAL, finding="conversion-failed", **ONEDNN, because="oneDNN throws"),
    specimen(NormOverAll, BITMAP, finding="conversion-failed", **ONEDNN, because="oneDNN throws"),
    specimen(LeakyHidden, floats("x", 8), finding="wrong-layer", **ONNX, because="the slope is lost"),
    specimen(LargeKeys, ids("keys", 2**40, 5), finding="wrong-layer", **ONNX, because="float modulo"),
    specimen(DoublePrecision, floats("x", 8), because="precision by name is kept"),
    specimen(LockedToFloat32, floats("x", 8), because="no truth in float64: judged by eager's own noise"),
]
