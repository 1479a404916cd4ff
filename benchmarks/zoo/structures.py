"""Healthy models with every form of input and output that a runtime could lose, rename or reorder."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, flags, floats, ids, specimen


class TwoTowers(nn.Layer):
    """Scores a user against an item."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(16, 8))
        self.item = nn.Linear(12, 8)

    def forward(self, user: Any, item: Any) -> Any:
        return (self.user(user) * self.item(item)).sum(axis=-1)


class NamedOutputs(nn.Layer):
    """Returns a dict that is not in alphabetical order."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(8, 16)
        self.logits, self.embedding = nn.Linear(16, 5), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        features = F.relu(self.trunk(x))
        return {"logits": self.logits(features), "embedding": self.embedding(features), "any": features.max(axis=-1)}


class NestedOutputs(nn.Layer):
    """Returns lists and None inside a dict inside a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.LayerList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        hidden = []
        for stage in self.stages:
            x = F.tanh(stage(x))
            hidden.append(x)
        return x.sum(axis=-1), {"hidden": hidden, "attention": None, "last": (x, [x * 2.0])}


class SameTensorTwice(nn.Layer):
    """Returns its only result under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        logits = self.head(x)
        return logits, logits


class PassesThrough(nn.Layer):
    """Returns its input beside the answer, for the caller to keep them together."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return x, self.head(x)


class ScalarLoss(nn.Layer):
    """Returns a 0-d mean beside the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        logits = self.head(x)
        return {"logits": logits, "energy": (logits**2).mean()}


class MaskedMean(nn.Layer):
    """Averages the vectors that a bool mask keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: Any, keep: Any) -> Any:
        weights = keep.astype("float32").unsqueeze(-1)
        pooled = (self.embed(tokens) * weights).sum(axis=1) / weights.sum(axis=1).clip(min=1.0)
        return self.head(pooled)


class Decisions(nn.Layer):
    """Returns ids, top scores and bools, no logits."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        scores = F.softmax(self.head(x))
        top, places = paddle.topk(scores, k=3)
        return {"label": scores.argmax(axis=-1), "top": top, "places": places, "sure": top[:, 0] > 0.5}


class HashBuckets(nn.Layer):
    """Integer arithmetic before an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 8)

    def forward(self, keys: Any) -> Any:
        buckets = (keys * 31 + 7) % 64
        return self.embed(buckets).sum(axis=1), buckets // 8


class SharedLayer(nn.Layer):
    """Applies one layer three times."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = x + F.gelu(self.step(x))
        return x


class TiedWeights(nn.Layer):
    """Uses the embedding's weight as the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.mix = nn.Linear(16, 16)

    def forward(self, tokens: Any) -> Any:
        return paddle.matmul(F.relu(self.mix(self.embed(tokens))), self.embed.weight, transpose_y=True)


class Standardised(nn.Layer):
    """Standardises with buffers, one of which is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", paddle.linspace(-1.0, 1.0, 8))
        self.register_buffer("scale", paddle.linspace(0.5, 2.0, 8), persistable=False)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head((x - self.mean) / self.scale)


class ScaledTanh(nn.Layer):
    """A home-made functional layer with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = self.create_parameter([4], default_initializer=nn.initializer.Constant(0.7))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return paddle.tanh(self.head(x) * self.slope) * 1.7159


class CarefulDropout(nn.Layer):
    """Functional dropout with `training=self.training`, and a branch on it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        x = F.dropout(F.relu(self.hidden(x)), 0.5, training=self.training)
        logits = self.head(x)
        return logits if self.training else F.softmax(logits)


class KeepsAttention(nn.Layer):
    """Keeps its last attention on itself for whoever wants to draw it; no answer depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 4)
        self.attention: Any = None

    def forward(self, x: Any) -> Any:
        self.attention = F.softmax(self.score(x), axis=1)
        return self.head((x * self.attention).sum(axis=1))


class Reparameterised(nn.Layer):
    """weight_norm and spectral_norm keep a weight that hooks derive from the parameters at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.spectral_norm(nn.Conv1D(8, 8, 3, padding=2))
        self.fc = nn.utils.weight_norm(nn.Linear(8, 4))

    def forward(self, x: Any) -> Any:
        return self.fc(F.relu(self.conv(x.transpose([0, 2, 1]))[:, :, :-2]).transpose([0, 2, 1]))


class NoParameters(nn.Layer):
    """Cosine similarity, without a single weight."""

    def forward(self, query: Any, document: Any) -> Any:
        return F.cosine_similarity(query, document, axis=-1)


class ScoresAndFacts(nn.Layer):
    """Numbers and words beside the scores, as demos return them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return {"scores": self.fc(x), "classes": 4, "threshold": 0.5, "task": "tags", "boxes": None}


class StaysInTraining(nn.Layer):
    """A switch that somebody forgot, and that nothing in the model reads."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        self.training = True  # <- train-mode
        return self.fc(x)


X = floats("x", 8)
SPECIMENS: list[Specimen] = [
    specimen(TwoTowers, ids("user", 50, 1), floats("item", 12), because="two inputs of two dtypes"),
    specimen(NamedOutputs, X, because="a dict keeps its author's order and names"),
    specimen(NestedOutputs, X, because="the caller gets back the nesting, None included"),
    specimen(SameTensorTwice, X, because="the export drops the second, the runtime gives it back"),
    specimen(PassesThrough, X, because="the export names it like the input, the runtime gives it back"),
    specimen(ScalarLoss, X, because="a 0-d output stays 0-d, and is not asked for rows"),
    specimen(MaskedMean, ids("tokens", 100, "length"), flags("keep", "length"), because="mask and variable length"),
    specimen(Decisions, X, because="ids and bools must be equal, not near"),
    specimen(HashBuckets, ids("keys", 1000, 5), because="whole numbers must be equal, not near"),
    specimen(SharedLayer, X, because="one layer, several calls"),
    specimen(TiedWeights, ids("tokens", 40, "length"), because="one weight, two uses"),
    specimen(Standardised, X, because="buffers are part of the model, saved or not"),
    specimen(ScaledTanh, X, because="a parameter of a layer that is no paddle.nn layer"),
    specimen(CarefulDropout, X, because="evaluation is evaluation"),
    specimen(KeepsAttention, floats("x", "length", 8), because="a tensor on self that no answer reads"),
    specimen(Reparameterised, floats("x", "length", 8), because="the program has the weights of the checkpoint, not of the constructor"),
    specimen(ScoresAndFacts, X, because="what is the same for every question is a note"),
    specimen(StaysInTraining, X, finding="train-mode", proven=("paddle",), because="the answers are right, so it is a warning"),
    specimen(NoParameters, floats("query", 8), floats("document", 8), because="no file of parameters is written"),
]
