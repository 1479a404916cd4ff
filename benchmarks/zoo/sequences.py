"""Models over sequences: recurrent state in and out, attention with masks, decoding by hand."""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, flags, floats, ids, specimen


class LstmWithState(nn.Layer):
    """A stacked LSTM whose state the caller keeps, batch first."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2)

    def forward(self, x: Any, hidden: Any, cell: Any) -> Any:
        output, (hidden, cell) = self.lstm(x, (hidden.transpose([1, 0, 2]), cell.transpose([1, 0, 2])))
        return output, hidden.transpose([1, 0, 2]), cell.transpose([1, 0, 2])


class BidirectionalGru(nn.Layer):
    """Classifies by the last states of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, 8)
        self.gru = nn.GRU(8, 6, direction="bidirect")
        self.head = nn.Linear(12, 3)

    def forward(self, tokens: Any) -> Any:
        _, last = self.gru(self.embed(tokens))
        return self.head(paddle.concat([last[0], last[1]], axis=-1))


class CellByHand(nn.Layer):
    """Steps a GRUCell over a fixed number of steps and stacks the states."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x: Any) -> Any:
        state = paddle.zeros([x.shape[0], 8], dtype=x.dtype)
        states = []
        for step in range(5):
            output, state = self.cell(x[:, step], state)
            states.append(output)
        return paddle.stack(states, axis=1)


class LengthsOfRows(nn.Layer):
    """An LSTM with the length of each row as an input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(60, 8), nn.LSTM(8, 8), nn.Linear(8, 3)

    def forward(self, tokens: Any, lengths: Any) -> Any:
        _, (hidden, _) = self.lstm(self.embed(tokens), sequence_length=lengths.flatten())
        return self.head(hidden[-1])


class Encoder(nn.Layer):
    """Paddle's own transformer encoder over tokens, blind to padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, 16)
        self.places = nn.Embedding(128, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: Any) -> Any:
        keep = tokens != 0
        mask = (1.0 - keep.astype(self.head.weight.dtype)).unsqueeze([1, 2]) * -1e4
        x = self.embed(tokens) + self.places(paddle.arange(tokens.shape[1]))
        return self.head(self.encoder(x, mask)[:, 0])


class CausalAttention(nn.Layer):
    """Attention by hand with a triangular mask from a buffer."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("past", paddle.tril(paddle.ones([128, 128])).astype("bool"), persistable=False)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.project(x).reshape([batch, length, 3, self.heads, self.size]).transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q, k, transpose_y=True) / math.sqrt(self.size)
        scores = paddle.where(self.past[:length, :length], scores, paddle.full_like(scores, -1e9))
        mixed = paddle.matmul(F.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([batch, length, width])
        return self.out(mixed)


class MaskedScores(nn.Layer):
    """Fills masked scores with minus infinity, on purpose, before a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 1)

    def forward(self, items: Any, hide: Any) -> Any:
        scores = self.score(items).squeeze(-1)
        return paddle.where(hide, paddle.full_like(scores, float("-inf")), scores)


class GreedyDecoder(nn.Layer):
    """Decodes greedily until every row has ended: a loop whose length is the input's affair."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(12, 8), nn.GRUCell(8, 8), nn.Linear(8, 12)

    def forward(self, state: Any) -> Any:
        token = paddle.ones([state.shape[0]], dtype="int64")
        ended = paddle.zeros([state.shape[0]], dtype="bool")
        total = paddle.zeros([state.shape[0]], dtype="int64")
        steps = paddle.zeros([], dtype="int64")
        while paddle.logical_and(steps < 10, paddle.logical_not(ended.all())):
            _, state = self.cell(self.embed(token), state)
            token = self.head(state).argmax(axis=-1)
            ended = paddle.logical_or(ended, token == 2)
            total = total * 3 + token
            steps = steps + 1
        return total, state


SPECIMENS: list[Specimen] = [
    specimen(
        LstmWithState,
        floats("x", "time", 6),
        floats("hidden", 2, 8),
        floats("cell", 2, 8),
        proven=("onnxruntime",),
        because="state in and out, of two layers",
    ),
    specimen(BidirectionalGru, ids("tokens", 60, "length"), because="both directions, variable length"),
    specimen(CellByHand, floats("x", 5, 6), because="a loop over a fixed number of steps is unrolled"),
    specimen(
        LengthsOfRows,
        ids("tokens", 60, 12),
        ids("lengths", 13, 1, low=1),
        proven=("onnxruntime",),
        because="rows of their own lengths, kept on the way to ONNX",
    ),
    specimen(Encoder, ids("tokens", 60, "length"), because="a transformer with a padding mask"),
    specimen(CausalAttention, floats("x", "length", 16), because="attention by hand over a dynamic length"),
    specimen(MaskedScores, floats("items", 6, 8), flags("hide", 6), because="infinity where the truth has it is no fault"),
    specimen(GreedyDecoder, floats("state", 8), also=("batch-dependent",), because="a loop until every row has ended"),
]
