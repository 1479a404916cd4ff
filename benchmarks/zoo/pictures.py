"""Families of vision: detection with suppression, segmentation, text recognition, attention over channels and windows, generation."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.vision import ops

from benchmarks.zoo.specimen import Specimen, floats, ids, image, specimen


class PriorBoxDetector(nn.Layer):
    """One stage, boxes relative to a grid of priors, and one list of survivors of suppression for a single picture."""

    def __init__(self, classes: int = 3, threshold: float = 0.2) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 16, 3, stride=4, padding=1), nn.ReLU(), nn.Conv2D(16, 16, 3, stride=2, padding=1), nn.ReLU())
        self.score = nn.Conv2D(16, classes + 1, 1)
        self.offset = nn.Conv2D(16, 4, 1)
        self.classes, self.threshold = classes, threshold
        places = (paddle.arange(4, dtype="float32") + 0.5) / 4
        rows, columns = paddle.meshgrid(places, places)
        self.register_buffer("centers", paddle.stack([columns.flatten(), rows.flatten()], axis=-1))

    def forward(self, image: Any) -> Any:
        features = self.body(image)
        scores = F.softmax(self.score(features).flatten(2).transpose([0, 2, 1]), axis=-1)
        offsets = self.offset(features).flatten(2).transpose([0, 2, 1])
        centers = self.centers + 0.1 * offsets[:, :, :2]
        halves = 0.15 * paddle.exp(0.2 * offsets[:, :, 2:])
        boxes = paddle.concat([centers - halves, centers + halves], axis=-1)
        best = scores[:, :, 1:].max(axis=-1)
        kept = ops.nms(boxes[0], 0.5, best[0])
        return boxes[0].index_select(kept), best[0].index_select(kept)


class CentersOfObjects(nn.Layer):
    """Detection without anchors: a heat map whose peaks are its own maximum in a window, and the best few of them."""

    def __init__(self, classes: int = 2, most: int = 5) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 12, 3, stride=2, padding=1), nn.BatchNorm2D(12), nn.ReLU())
        self.heat, self.size = nn.Conv2D(12, classes, 1), nn.Conv2D(12, 2, 1)
        self.most = most

    def forward(self, image: Any) -> Any:
        features = self.body(image)
        heat = F.sigmoid(self.heat(features))
        peaks = heat * (F.max_pool2d(heat, 3, stride=1, padding=1) == heat).astype(heat.dtype)
        scores, places = paddle.topk(peaks.flatten(1), self.most)
        cells = features.shape[2] * features.shape[3]
        sizes = self.size(features).flatten(2).transpose([0, 2, 1])
        chosen = paddle.take_along_axis(sizes, (places % cells).unsqueeze(-1).expand([-1, -1, 2]), axis=1)
        return {"scores": scores, "classes": places // cells, "sizes": chosen}


class PyramidSegmenter(nn.Layer):
    """Features of several scales brought to one size by a factor, as segmentation heads do."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2D(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2D(8, 8, 3, stride=2, padding=1)
        self.head = nn.Conv2D(16, classes, 1)

    def forward(self, image: Any) -> Any:
        fine = F.relu(self.first(image))
        coarse = F.relu(self.second(fine))
        coarse = F.interpolate(coarse, scale_factor=2, mode="bilinear")  # <- unsupported-operator
        return self.head(paddle.concat([fine, coarse], axis=1))


class TextLineHead(nn.Layer):
    """Recognition without recurrence: pooled columns, scores, and the greedy reading with its mean confidence."""

    def __init__(self, symbols: int = 12) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(1, 16, 3, stride=(2, 1), padding=1), nn.Hardswish(), nn.Conv2D(16, 16, 3, stride=(2, 1), padding=1)
        )
        self.score = nn.Linear(16, symbols)

    def forward(self, line: Any) -> Any:
        columns = self.body(line).mean(axis=2).transpose([0, 2, 1])
        chances = F.softmax(self.score(columns), axis=-1)
        return {"reading": chances.argmax(axis=-1), "confidence": chances.max(axis=-1).mean(axis=-1)}


class SqueezeExcite(nn.Layer):
    def __init__(self, channels: int, ratio: int = 4) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.gate = nn.Sequential(
            nn.Conv2D(channels, channels // ratio, 1), nn.ReLU(), nn.Conv2D(channels // ratio, channels, 1), nn.Hardsigmoid()
        )

    def forward(self, x: Any) -> Any:
        return x * self.gate(self.pool(x))


class ChannelAndSpace(nn.Layer):
    """Attention over channels by a shared network, then over places by their mean and maximum."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2D(3, channels, 3, padding=1)
        self.squeeze = SqueezeExcite(channels)
        self.shared = nn.Sequential(nn.Linear(channels, channels // 4), nn.ReLU(), nn.Linear(channels // 4, channels))
        self.space = nn.Conv2D(2, 1, 7, padding=3)
        self.out = nn.Linear(channels, 5)

    def forward(self, image: Any) -> Any:
        x = self.squeeze(F.relu(self.stem(image)))
        gate = F.sigmoid(self.shared(x.mean(axis=[2, 3])) + self.shared(x.amax(axis=[2, 3])))
        x = x * gate.unsqueeze(-1).unsqueeze(-1)
        places = paddle.concat([x.mean(axis=1, keepdim=True), x.max(axis=1, keepdim=True)], axis=1)
        x = x * F.sigmoid(self.space(places))
        return self.out(x.mean(axis=[2, 3]))


class WindowAttention(nn.Layer):
    """Attention within windows, shifted by half a window in every second block, with a bias by relative place."""

    def __init__(self, dim: int, side: int, window: int, heads: int, shift: int) -> None:
        super().__init__()
        self.side, self.window, self.heads, self.shift = side, window, heads, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.bias = self.create_parameter([(2 * window - 1) ** 2, heads])
        places = paddle.stack(paddle.meshgrid(paddle.arange(window), paddle.arange(window))).flatten(1)
        apart = (places.unsqueeze(2) - places.unsqueeze(1)).transpose([1, 2, 0]) + (window - 1)
        self.register_buffer("index", (apart[:, :, 0] * (2 * window - 1) + apart[:, :, 1]).flatten())
        self.register_buffer("mask", self._mask() if shift else paddle.zeros([1]))

    def _mask(self) -> Any:
        area = paddle.zeros([1, self.side, self.side, 1])
        count = 0
        cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for rows in cuts:
            for columns in cuts:
                area[:, rows, columns, :] = count
                count += 1
        parts = self._split(area).squeeze(-1)
        return paddle.where(parts.unsqueeze(1) == parts.unsqueeze(2), paddle.zeros([1]), paddle.full([1], -100.0))

    def _split(self, x: Any) -> Any:
        batch, cells, dim = x.shape[0], self.side // self.window, x.shape[-1]
        x = x.reshape([batch, cells, self.window, cells, self.window, dim]).transpose([0, 1, 3, 2, 4, 5])
        return x.reshape([-1, self.window * self.window, dim])

    def forward(self, x: Any) -> Any:
        batch, _, dim = x.shape
        cells, tokens = self.side // self.window, self.window * self.window
        y = self.norm(x).reshape([batch, self.side, self.side, dim])
        if self.shift:
            y = paddle.roll(y, [-self.shift, -self.shift], axis=[1, 2])
        y = self._split(y)
        q, k, v = self.qkv(y).reshape([-1, tokens, 3, self.heads, dim // self.heads]).transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = q @ k.transpose([0, 1, 3, 2]) * (dim // self.heads) ** -0.5
        scores = scores + self.bias.index_select(self.index).reshape([tokens, tokens, self.heads]).transpose([2, 0, 1])
        if self.shift:
            scores = scores.reshape([-1, cells * cells, self.heads, tokens, tokens]) + self.mask.unsqueeze(1)
            scores = scores.reshape([-1, self.heads, tokens, tokens])
        y = (F.softmax(scores, axis=-1) @ v).transpose([0, 2, 1, 3]).reshape([-1, cells, cells, self.window, self.window, dim])
        y = y.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, self.side, self.side, dim])
        if self.shift:
            y = paddle.roll(y, [self.shift, self.shift], axis=[1, 2])
        x = x + self.proj(y.reshape([-1, self.side * self.side, dim]))
        return x + self.mlp(x)


class SmallSwin(nn.Layer):
    """Two stages of two blocks with a merge of patches between them."""

    def __init__(self, size: int = 32, dim: int = 16, window: int = 4, classes: int = 6) -> None:
        super().__init__()
        self.side = size // 4
        self.patch = nn.Conv2D(3, dim, 4, stride=4)
        self.first = nn.Sequential(*[WindowAttention(dim, self.side, window, 2, shift) for shift in (0, window // 2)])
        self.merge = nn.Sequential(nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias_attr=False))
        self.second = nn.Sequential(*[WindowAttention(2 * dim, self.side // 2, window, 4, 0) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(2 * dim), nn.Linear(2 * dim, classes)

    def forward(self, image: Any) -> Any:
        x = self.first(self.patch(image).flatten(2).transpose([0, 2, 1]))
        x = x.reshape([-1, self.side, self.side, x.shape[-1]])
        x = paddle.concat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], axis=-1)
        x = self.second(self.merge(x.flatten(1, 2)))
        return self.head(self.norm(x).mean(axis=1))


class Generator(nn.Layer):
    """A picture from noise and a label, by transposed convolutions."""

    def __init__(self, noise: int = 12, classes: int = 4, width: int = 8) -> None:
        super().__init__()
        self.width, self.label = width, nn.Embedding(classes, noise)
        self.start = nn.Linear(noise, 2 * width * 16)
        self.body = nn.Sequential(
            nn.BatchNorm2D(2 * width), nn.ReLU(), nn.Conv2DTranspose(2 * width, width, 4, stride=2, padding=1),
            nn.BatchNorm2D(width), nn.ReLU(), nn.Conv2DTranspose(width, 3, 4, stride=2, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise: Any, label: Any) -> Any:
        x = self.start(noise * self.label(label)).reshape([-1, 2 * self.width, 4, 4])
        return self.body(x)


class RadianceField(nn.Layer):
    """Density and colour of points by sines of many frequencies, put together along each ray."""

    def __init__(self, frequencies: int = 4, width: int = 24) -> None:
        super().__init__()
        self.register_buffer("scales", 2.0 ** paddle.arange(frequencies, dtype="float32"))
        self.body = nn.Sequential(nn.Linear(3 + 6 * frequencies, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width, 4)

    def forward(self, points: Any) -> Any:
        waves = (points.unsqueeze(-1) * self.scales).flatten(-2)
        found = self.out(self.body(paddle.concat([points, paddle.sin(waves), paddle.cos(waves)], axis=-1)))
        density, colour = F.softplus(found[..., 0]), F.sigmoid(found[..., 1:])
        opaque = 1 - paddle.exp(-density * 0.1)
        clear = paddle.cumprod(1 - opaque + 1e-6, dim=-1)
        weights = opaque * paddle.concat([paddle.ones_like(clear[..., :1]), clear[..., :-1]], axis=-1)
        return (weights.unsqueeze(-1) * colour).sum(axis=-2)


SPECIMENS: list[Specimen] = [
    specimen(PriorBoxDetector, image(), also=("batch-dependent",), because="suppression leaves as many boxes as it likes"),
    specimen(CentersOfObjects, image(), because="peaks by comparison, and the best few of them"),
    specimen(
        PyramidSegmenter,
        image(),
        finding="unsupported-operator",
        proven=("paddle", "onnxruntime"),
        refused=("paddle-onednn",),
        because="oneDNN fails on the interpolation by a factor, not on the convolutions beside it",
    ),
    specimen(TextLineHead, floats("line", 1, 16, "width"), because="a reading and its confidence"),
    specimen(ChannelAndSpace, image(), because="gates over channels and places"),
    specimen(SmallSwin, image(), because="windows, shifts and a table of relative places"),
    specimen(Generator, floats("noise", 12), ids("label", 4), because="noise of each row with its label"),
    specimen(RadianceField, floats("points", 5, 8, 3, low=-1, high=1), because="products along a ray"),
]
