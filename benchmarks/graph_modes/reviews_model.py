"""A character model for the reviews: embeddings of characters and of hashed pairs, pooled by attention. Other modes describe it again."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F


class Reviews(nn.Layer):  # type: ignore[misc]  # Paddle is not checked
    """Logits of the classes from character ids; id 0 is padding and changes nothing."""

    def __init__(self, vocabulary_size: int, pairs: int, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.pairs = pairs
        self.characters = nn.Embedding(vocabulary_size, width, padding_idx=0)
        self.bigrams = nn.Embedding(pairs, width)
        self.score = nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)

    def forward(self, ids: Any) -> dict[str, Any]:
        mask = (ids != 0).astype("float32")
        following = F.pad(ids[:, 1:], [0, 1], value=0)
        pair = (ids * 4093 + following) % self.pairs  # below 2**24: ONNX computes the remainder in float32
        features = self.dropout(F.relu(self.characters(ids) + self.bigrams(pair)))
        scores = self.score(features).squeeze(-1) + (mask - 1) * 1e4
        weights = F.softmax(scores, axis=-1).unsqueeze(1)
        pooled = paddle.matmul(weights, features).squeeze(1)
        return {"logits": self.output(self.dropout(pooled))}


def build(vocabulary_size: int = 4096, pairs: int = 199999, width: int = 32, classes: int = 2, dropout: float = 0.3) -> nn.Layer:
    return Reviews(vocabulary_size, pairs, width, classes, dropout)
