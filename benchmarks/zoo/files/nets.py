"""What the owner of a file has beside it: model classes, and a reader of rows. It is copied into the owner's folder as `nets.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import nn

CLASSES = 3


class Backbone(nn.Layer):
    """float32 [batch, 3, 8, 8] to 8 features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2D(3, 8, 3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(8)
        self.pool = nn.AdaptiveAvgPool2D(1)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.pool(nn.functional.relu(self.bn1(self.conv1(x)))).flatten(1)


class Net(nn.Layer):
    """A backbone and a head, as in the collections for pictures."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(8, classes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.head(self.backbone(x))


class Reader(nn.Layer):
    """int64 [batch, length] to scores, padding (0) left out; the embedding has two names, as where it is the last layer too."""

    def __init__(self, words: int = 32, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.middle = nn.Linear(width, width)
        self.word = self.embedding
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        mask = (ids != 0).astype("float32").unsqueeze(-1)
        mean = (self.embedding(ids) * mask).sum(1) / mask.sum(1).clip(min=1)
        hidden = nn.functional.gelu(self.middle(mean))
        return self.head(nn.functional.softmax(hidden @ self.word.weight.T) @ self.embedding.weight)


class TwoInputs(nn.Layer):
    """A picture and numbers to scores and features."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.numbers = nn.Linear(4, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: paddle.Tensor, extra: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        features = self.backbone(x) + nn.functional.sigmoid(self.numbers(extra))
        return self.head(features), features


def pictures(_raw: Path, extra: bool = False) -> Iterator[dict[str, Any]]:
    """Sixty rows without labels."""
    random = np.random.default_rng(0)
    for _ in range(60):
        row = {"x": random.normal(size=(3, 8, 8)).astype("float32")}
        yield row | ({"extra": random.normal(size=4).astype("float32")} if extra else {})


def texts(_raw: Path) -> Iterator[dict[str, Any]]:
    """Sixty rows of 4 to 16 ids without labels."""
    random = np.random.default_rng(0)
    for _ in range(60):
        yield {"ids": random.integers(1, 32, random.integers(4, 17))}
