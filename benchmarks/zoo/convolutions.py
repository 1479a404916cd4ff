"""Healthy convolutional models, a detection head among them."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, image, specimen


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
    """Instance norm and PReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 8, 3), nn.Silu(), nn.Conv2D(8, 8, 3), nn.InstanceNorm2D(8), nn.PReLU(8))
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


SPECIMENS: list[Specimen] = [
    specimen(Residual, image(), because="batch norm is folded, the answer stays"),
    specimen(Depthwise, image(), because="depthwise convolution, hard swish, squeeze and excitation"),
    specimen(OtherNorms, image(), because="instance norm, PReLU"),
    specimen(AnySize, floats("image", 3, "height", "width"), because="three dynamic dimensions"),
    specimen(DetectionHead, image(), because="NMS: the number of boxes is the input's affair"),
]
