"""The networks of the bench that are not in Paddle: text, sequences, several inputs, control flow, detection."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F


def picture(name: str, classes: int) -> nn.Layer:
    """A classifier of `paddle.vision.models`, with random weights."""
    layer: nn.Layer = getattr(paddle.vision.models, name)(num_classes=classes)
    return layer


class TextCNN(nn.Layer):
    """Convolutions over three widths of words, and the largest answer of each filter."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 128)
        self.convolutions = nn.LayerList([nn.Conv1D(128, 100, width, padding=width - 1) for width in (3, 4, 5)])
        self.head = nn.Linear(300, classes)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids).transpose([0, 2, 1])
        return self.head(paddle.concat([F.relu(layer(x)).max(axis=-1) for layer in self.convolutions], axis=-1))


class BiLSTM(nn.Layer):
    """Reads the words in both directions, and averages the states."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 128)
        self.lstm = nn.LSTM(128, 128, direction="bidirect")
        self.head = nn.Linear(256, classes)

    def forward(self, ids: Any) -> Any:
        states, _ = self.lstm(self.embedding(ids))
        return self.head(states.mean(axis=1))


class Bert(nn.Layer):
    """BERT-small: 4 layers of 512, 8 heads; words of any length up to 128, where 0 is padding."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, 512), nn.Embedding(128, 512)
        self.norm = nn.LayerNorm(512)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.pooler, self.head = nn.Linear(512, 512), nn.Linear(512, classes)

    def forward(self, ids: Any) -> Any:
        places = paddle.arange(ids.shape[1], dtype="int64").unsqueeze(0)
        mask = ((ids == 0).astype("float32") * -1e4).unsqueeze([1, 2])
        states = self.encoder(self.norm(self.words(ids) + self.places(places)), mask)
        return self.head(F.tanh(self.pooler(states[:, 0])))


class Recommender(nn.Layer):
    """Several inputs and outputs: bags of two kinds of ids, and numbers, crossed as DCN does."""

    def __init__(self, items: int, groups: int, numbers: int) -> None:
        super().__init__()
        width = 64 + 16 + numbers
        self.items, self.groups = nn.Embedding(items, 64), nn.Embedding(groups, 16)
        self.norm = nn.BatchNorm1D(numbers)
        self.crosses = nn.LayerList([nn.Linear(width, width) for _ in range(2)])
        self.deep = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.click, self.rating = nn.Linear(width + 128, 2), nn.Linear(width + 128, 1)

    def forward(self, history: Any, group: Any, numbers: Any) -> Any:
        seen = (history != 0).astype("float32").unsqueeze(-1)
        bag = (self.items(history) * seen).sum(axis=1) / seen.sum(axis=1).clip(min=1)
        x = paddle.concat([bag, self.groups(group), self.norm(numbers)], axis=-1)
        crossed = x
        for cross in self.crosses:
            crossed = x * cross(crossed) + crossed
        joined = paddle.concat([crossed, self.deep(x)], axis=-1)
        return {"click": self.click(joined), "rating": self.rating(joined).squeeze(-1)}


class Solver(nn.Layer):
    """Control flow: refines each row as often as the row requests, and takes an expensive path only if a row needs it."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.start, self.step = nn.Linear(features, 64), nn.GRUCell(64, 64)
        self.careful = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
        self.head = nn.Linear(64, classes)

    def forward(self, x: Any, rounds: Any) -> Any:
        begun = F.relu(self.start(x))
        state, done = begun, paddle.zeros([], dtype="int64")
        while done < rounds.max():
            going = (done < rounds).unsqueeze(-1).astype("float32")
            state = state + going * (self.step(begun, state)[0] - state)
            done = done + 1
        hard = (rounds > 4).unsqueeze(-1).astype("float32")
        if hard.sum() > 0:
            state = state + hard * self.careful(state)
        return self.head(state)


class Detector(nn.Layer):
    """A detection head over a small backbone: boxes of two anchors a cell, their scores, and the box they expect."""

    def __init__(self) -> None:
        super().__init__()
        pairs = pairwise((3, 32, 64, 128))
        self.backbone = nn.Sequential(*(self._halved(before, after) for before, after in pairs))
        self.boxes, self.scores = nn.Conv2D(128, 8, 3, padding=1), nn.Conv2D(128, 2, 3, padding=1)
        centers = (paddle.arange(12, dtype="float32") + 0.5) / 12
        y, x = paddle.meshgrid(centers, centers)
        grid = paddle.stack([x, y], axis=-1).reshape([1, 144, 1, 2]).expand([1, 144, 2, 2]).reshape([1, 288, 2])
        self.register_buffer("centers", grid)
        self.register_buffer("sizes", paddle.to_tensor([0.2, 0.4]).reshape([1, 1, 2, 1]).expand([1, 144, 2, 2]).reshape([1, 288, 2]))

    @staticmethod
    def _halved(before: int, after: int) -> nn.Layer:
        return nn.Sequential(nn.Conv2D(before, after, 3, stride=2, padding=1), nn.BatchNorm2D(after), nn.ReLU())

    def forward(self, image: Any) -> Any:
        features = self.backbone(image)
        moved = self.boxes(features).transpose([0, 2, 3, 1]).reshape([-1, 288, 4])
        scores = self.scores(features).transpose([0, 2, 3, 1]).reshape([-1, 288])
        centers = self.centers + F.tanh(moved[:, :, :2]) * self.sizes
        boxes = paddle.concat([centers, self.sizes * paddle.exp(moved[:, :, 2:].clip(-2.0, 2.0))], axis=-1)
        expected = (F.softmax(scores, axis=-1).unsqueeze(-1) * boxes).sum(axis=1)
        return {"box": expected, "boxes": boxes, "scores": F.sigmoid(scores)}
