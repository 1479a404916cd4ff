"""Families of recommendation, matching and graphs: lists of inputs, attention over a history, experts, neighbours."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, flags, floats, ids, specimen
from paddleship.config.sections.model import Input


class FieldsAndNumbers(nn.Layer):
    """A click model that is given its sparse fields as a list and its numbers as one tensor."""

    def __init__(self, fields: int = 3, count: int = 40, dim: int = 6) -> None:
        super().__init__()
        self.embeddings = nn.LayerList([nn.Embedding(count, dim) for _ in range(fields)])
        self.linear = nn.LayerList([nn.Embedding(count, 1) for _ in range(fields)])
        self.deep = nn.Sequential(nn.Linear(fields * dim + 4, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, sparse: Any, dense: Any) -> Any:
        vectors = paddle.stack([embed(field) for embed, field in zip(self.embeddings, sparse)], axis=1)
        first = sum(weight(field) for weight, field in zip(self.linear, sparse))
        second = 0.5 * (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=-1, keepdim=True)
        return F.sigmoid(first + second + self.deep(paddle.concat([vectors.flatten(1), dense], axis=-1)))


class InterestOfAUser(nn.Layer):
    """Attention of the item in question over what a user did, given as a dict of columns."""

    def __init__(self, items: int = 80, dim: int = 8) -> None:
        super().__init__()
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.weigh = nn.Sequential(nn.Linear(4 * dim, 16), nn.PReLU(), nn.Linear(16, 1))
        self.out = nn.Sequential(nn.Linear(2 * dim, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, batch: Any, bias: Any = None) -> Any:
        target, history = self.item(batch["item"]), self.item(batch["history"])
        wide = target.unsqueeze(1).expand_as(history)
        scores = self.weigh(paddle.concat([wide, history, wide - history, wide * history], axis=-1)).squeeze(-1)
        scores = scores * (batch["history"] != 0).astype(scores.dtype)
        interest = (scores.unsqueeze(-1) * history).sum(axis=1)
        logit = self.out(paddle.concat([interest, target], axis=-1)).squeeze(-1)
        return logit if bias is None else logit + bias


class MixtureOfExperts(nn.Layer):
    """Each row goes to its two best experts, weighed by a gate."""

    def __init__(self, width: int = 12, experts: int = 4, best: int = 2) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.LayerList([nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width)) for _ in range(experts)])
        self.best = best

    def forward(self, x: Any) -> Any:
        values, places = paddle.topk(self.gate(x), self.best)
        weights = F.softmax(values, axis=-1)
        outputs = paddle.stack([expert(x) for expert in self.experts], axis=1)
        chosen = paddle.take_along_axis(outputs, places.unsqueeze(-1).expand([-1, -1, x.shape[-1]]), axis=1)
        return x + (weights.unsqueeze(-1) * chosen).sum(axis=1)


class Siamese(nn.Layer):
    """Two texts through one encoder, compared by cosine and distance."""

    def __init__(self, words: int = 60, dim: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, dim, padding_idx=0)
        self.encode = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())

    def vector(self, words: Any) -> Any:
        weights = (words != 0).astype("float32").unsqueeze(-1)
        return self.encode((self.embed(words) * weights).sum(axis=1) / weights.sum(axis=1).clip(min=1))

    def forward(self, left: Any, right: Any) -> Any:
        a, b = self.vector(left), self.vector(right)
        return {"cosine": F.cosine_similarity(a, b, axis=-1), "distance": ((a - b) ** 2).sum(axis=-1)}


class GraphAttention(nn.Layer):
    """A graph in each row: features of its vertices and who knows whom."""

    def __init__(self, width: int = 6, hidden: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.project = nn.Linear(width, hidden, bias_attr=False)
        self.here, self.there = nn.Linear(hidden, 1, bias_attr=False), nn.Linear(hidden, 1, bias_attr=False)
        self.out = nn.Linear(hidden, classes)

    def forward(self, vertices: Any, edges: Any) -> Any:
        h = self.project(vertices)
        scores = F.leaky_relu(self.here(h) + self.there(h).transpose([0, 2, 1]), 0.2)
        known = paddle.logical_or(edges, paddle.eye(edges.shape[-1]).astype("bool"))
        weights = F.softmax(paddle.where(known, scores, paddle.full([1], -1e9)), axis=-1)
        return self.out(F.elu(weights @ h).mean(axis=1))


class GraphOfOneList(nn.Layer):
    """One graph as a list of edges: there is no batch, and the number of vertices and edges is what it is."""

    def __init__(self, width: int = 5, hidden: int = 8) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, 2)

    def forward(self, vertices: Any, sources: Any, targets: Any) -> Any:
        h = F.relu(self.first(vertices))
        gathered = paddle.scatter(paddle.zeros_like(h), targets, h.index_select(sources), overwrite=False)
        return self.second(h + gathered)


class Capsules(nn.Layer):
    """Routing by agreement between two layers of capsules."""

    def __init__(self, lower: int = 6, upper: int = 3, dim: int = 4) -> None:
        super().__init__()
        self.lower, self.dim = lower, dim
        self.body = nn.Linear(16, lower * dim)
        self.weight = self.create_parameter([1, lower, upper, dim, dim])

    def forward(self, x: Any) -> Any:
        u = squash(self.body(x).reshape([-1, self.lower, self.dim]))
        votes = (self.weight @ u.unsqueeze(2).unsqueeze(-1)).squeeze(-1)
        logits = paddle.zeros_like(votes[..., :1])
        for _ in range(3):
            v = squash((F.softmax(logits, axis=2) * votes).sum(axis=1, keepdim=True))
            logits = logits + (votes * v).sum(axis=-1, keepdim=True)
        return v.squeeze(1).norm(axis=-1)


def squash(x: Any) -> Any:
    size = (x**2).sum(axis=-1, keepdim=True)
    return x * size / ((1 + size) * paddle.sqrt(size + 1e-8))


SPECIMENS: list[Specimen] = [
    specimen(
        FieldsAndNumbers,
        *[ids(f"sparse[{index}]", 40) for index in range(3)],
        floats("dense", 4),
        because="a list of fields needs no wrapper",
    ),
    specimen(
        InterestOfAUser,
        ids("batch.item", 80),
        ids("batch.history", 80, "length"),
        because="a dict of columns needs no wrapper, and what is optional is left out",
    ),
    specimen(MixtureOfExperts, floats("x", 12), because="two of four experts for each row"),
    specimen(Siamese, ids("left", 60, "words"), ids("right", 60, "others"), because="one encoder, two texts"),
    specimen(GraphAttention, floats("vertices", "count", 6), flags("edges", "count", "count"), because="neighbours by a matrix"),
    specimen(
        GraphOfOneList,
        Input(name="vertices", dtype="float32", shape=["vertices", 5]),
        Input(name="sources", dtype="int64", shape=["edges"], low=0, high="vertices - 1"),
        Input(name="targets", dtype="int64", shape=["edges"], low=0, high="vertices - 1"),
        because="no batch, and ids that are bounded by a size",
    ),
    specimen(Capsules, floats("x", 16), because="a loop of routing"),
]
