"""Characters and pairs of characters of a text, weighted as in TF-IDF, but learned: a model that trains in a minute on two cores."""

import paddle
from paddle import nn
from paddle.nn import functional as F

_LEAST = 1e-6  # under a root


class Terms(nn.Layer):
    """The sum of the vectors of terms, each times its weight; the weights of a text have the norm 1, as in TF-IDF, and are learned."""

    def __init__(self, count: int, width: int, dropout: float) -> None:
        super().__init__()
        start = nn.initializer.Normal(std=0.05)
        self.vectors = nn.Embedding(count, width, weight_attr=start)
        self.weights = nn.Embedding(count, 1, weight_attr=start)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids, present):
        weights = F.softplus(4 * self.weights(ids).squeeze(-1)) * present
        weights = weights / paddle.sqrt((weights * weights).sum(-1, keepdim=True) + _LEAST)
        return paddle.matmul(self.dropout(weights).unsqueeze(1), self.vectors(ids)).squeeze(1)


class Reviews(nn.Layer):
    """Logits of the classes from character ids; id 0 is padding and changes nothing. Training drops whole terms, and parts of their sum."""

    def __init__(self, vocabulary_size: int, pairs: int, width: int, classes: int, dropout: float, term_dropout: float) -> None:
        super().__init__()
        self.pairs = pairs
        self.characters = Terms(vocabulary_size, width, term_dropout)
        self.bigrams = Terms(pairs, width, term_dropout)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * width, classes)

    def forward(self, ids):
        present = (ids != 0).astype(self.output.weight.dtype)
        following = F.pad(ids[:, 1:], [0, 1], value=0)
        pair = (ids * 4093 + following) % self.pairs  # below 2**24: ONNX computes the remainder in float32
        both = present * (following != 0).astype(present.dtype)
        pooled = paddle.concat([self.characters(ids, present), self.bigrams(pair, both)], axis=-1)
        return {"logits": self.output(self.dropout(pooled))}


def build(
    vocabulary_size: int = 4096, pairs: int = 399989, width: int = 16, classes: int = 2, dropout: float = 0.5, term_dropout: float = 0.6
) -> nn.Layer:
    return Reviews(vocabulary_size, pairs, width, classes, dropout, term_dropout)
