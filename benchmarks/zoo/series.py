"""Families of sequences: lengths, lattices, caches, periods taken from the data, speech, pointers."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, ids, specimen


class PackedGru(nn.Layer):
    """A recurrent classifier of padded rows, with the length of each row."""

    def __init__(self, words: int = 50, dim: int = 8) -> None:
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(words, dim), nn.GRU(dim, dim), nn.Linear(dim, 3)

    def forward(self, words: Any, lengths: Any) -> Any:
        _, last = self.gru(self.embed(words), sequence_length=lengths)
        return self.out(last[-1])


class LinearChain(nn.Layer):
    """Labels of a sentence by the best path through a lattice of transitions."""

    def __init__(self, words: int = 50, labels: int = 4, dim: int = 8) -> None:
        super().__init__()
        self.embed, self.score = nn.Embedding(words, dim), nn.Linear(dim, labels)
        self.transitions = self.create_parameter([labels, labels], default_initializer=nn.initializer.Normal(std=0.5))

    def forward(self, words: Any) -> Any:
        emissions = self.score(self.embed(words))
        best, back = emissions[:, 0], []
        for step in range(1, 8):
            paths = best.unsqueeze(-1) + self.transitions.unsqueeze(0)
            back.append(paths.argmax(axis=1))
            best = paths.max(axis=1) + emissions[:, step]
        label = best.argmax(axis=-1, keepdim=True)
        labels = [label]
        for places in reversed(back):
            label = paddle.take_along_axis(places, label, axis=1)
            labels.append(label)
        return {"score": best.max(axis=-1), "labels": paddle.concat(labels[::-1], axis=1)}


class CachedDecoder(nn.Layer):
    """One step of a decoder that is given its keys and values, and gives them back longer by one."""

    def __init__(self, words: int = 40, dim: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.qkv = nn.LayerList([nn.Linear(dim, 3 * dim) for _ in range(layers)])
        self.out = nn.Linear(dim, words)

    def forward(self, word: Any, cache: Any) -> Any:
        x, kept = self.embed(word), []
        for layer, (keys, values) in zip(self.qkv, cache):
            q, k, v = layer(x).chunk(3, axis=-1)
            keys, values = paddle.concat([keys, k], axis=1), paddle.concat([values, v], axis=1)
            kept.append((keys, values))
            x = x + F.softmax(q @ keys.transpose([0, 2, 1]) * 0.35, axis=-1) @ values
        return self.out(x[:, -1]), kept


class PeriodsOfTheData(nn.Layer):
    """A series folded by its own strongest period, which is found in its spectrum for each row by itself."""

    def __init__(self, length: int = 24, channels: int = 2, ahead: int = 6, best: int = 2) -> None:
        super().__init__()
        self.length, self.best = length, best
        self.mix, self.out = nn.Linear(channels, channels), nn.Linear(length * channels, ahead)

    def forward(self, series: Any) -> Any:
        centred = series - series.mean(axis=1, keepdim=True)
        power = paddle.fft.rfft(centred, axis=1).abs().mean(axis=-1)[:, 1:]
        strength, places = paddle.topk(power, self.best)
        weights = F.softmax(strength, axis=-1)
        steps = paddle.arange(self.length).unsqueeze(0)
        mixed = 0
        for rank in range(self.best):
            period = self.length // (places[:, rank : rank + 1] + 1)
            back = (steps - period + self.length) % self.length
            moved = paddle.take_along_axis(centred, back.unsqueeze(-1).expand([-1, -1, series.shape[-1]]), axis=1)
            mixed = mixed + weights[:, rank].unsqueeze(-1).unsqueeze(-1) * self.mix(moved)
        return self.out((centred + mixed).flatten(1))


class CausalConvolutions(nn.Layer):
    """Dilated convolutions that look only back, cut off at the end."""

    def __init__(self, channels: int = 6, levels: int = 3) -> None:
        super().__init__()
        self.convs = nn.LayerList([nn.Conv1D(channels, channels, 3, padding=2 * 2**level, dilation=2**level) for level in range(levels)])
        self.out = nn.Linear(channels, 1)

    def forward(self, series: Any) -> Any:
        x = series.transpose([0, 2, 1])
        for level, conv in enumerate(self.convs):
            x = x + F.relu(conv(x)[:, :, : -2 * 2**level])
        return self.out(x.transpose([0, 2, 1])[:, -1])


class ConformerBlock(nn.Layer):
    """Half a feed-forward, attention, a gated convolution, half a feed-forward."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.before, self.after = (nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 24), nn.Swish(), nn.Linear(24, dim)) for _ in range(2))
        self.norm, self.attention = nn.LayerNorm(dim), nn.MultiHeadAttention(dim, 2)
        self.gate, self.depth = nn.Conv1D(dim, 2 * dim, 1), nn.Conv1D(dim, dim, 5, padding=2, groups=dim)
        self.batch, self.point, self.last = nn.BatchNorm1D(dim), nn.Conv1D(dim, dim, 1), nn.LayerNorm(dim)

    def forward(self, x: Any) -> Any:
        x = x + 0.5 * self.before(x)
        x = x + self.attention(self.norm(x))
        y = F.glu(self.gate(x.transpose([0, 2, 1])), axis=1)
        x = x + self.point(F.swish(self.batch(self.depth(y)))).transpose([0, 2, 1])
        return self.last(x + 0.5 * self.after(x))


class SpeechToSymbols(nn.Layer):
    """Frames, halved by a convolution, then a conformer block and the scores that CTC reads, with the number of frames left."""

    def __init__(self, mels: int = 8, dim: int = 12, symbols: int = 9) -> None:
        super().__init__()
        self.subsample = nn.Conv1D(mels, dim, 3, stride=2, padding=1)
        self.block, self.out = ConformerBlock(dim), nn.Linear(dim, symbols)

    def forward(self, frames: Any) -> Any:
        x = F.relu(self.subsample(frames.transpose([0, 2, 1]))).transpose([0, 2, 1])
        scores = F.log_softmax(self.out(self.block(x)), axis=-1)
        return {"scores": scores, "reading": scores.argmax(axis=-1), "factor": 2}


class PointerNetwork(nn.Layer):
    """An order of its inputs, chosen one after the other, none twice."""

    def __init__(self, width: int = 2, dim: int = 8, count: int = 5) -> None:
        super().__init__()
        self.encode, self.cell = nn.LSTM(width, dim), nn.LSTMCell(width, dim)
        self.keys, self.query, self.energy = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)
        self.count = count

    def forward(self, points: Any) -> Any:
        memory, (hidden, cell) = self.encode(points)
        state, given = (hidden[-1], cell[-1]), points.mean(axis=1)
        keys, taken, order = self.keys(memory), paddle.zeros_like(points[:, :, 0]), []
        for _ in range(self.count):
            _, state = self.cell(given, state)
            scores = self.energy(paddle.tanh(keys + self.query(state[0]).unsqueeze(1))).squeeze(-1) - 1e9 * taken
            place = scores.argmax(axis=-1)
            chosen = F.one_hot(place, self.count)
            taken, given = taken + chosen, (points * chosen.unsqueeze(-1)).sum(axis=1)
            order.append(place)
        return paddle.stack(order, axis=1)


class TranslationWithMasks(nn.Layer):
    """Encoder and decoder of Paddle's own transformer, with a mask that may be left out."""

    def __init__(self, words: int = 40, dim: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.body = nn.Transformer(dim, 2, 1, 1, 32, dropout=0.1)
        self.out = nn.Linear(dim, words)

    def forward(self, source: Any, target: Any, source_mask: Any, target_mask: Any = None) -> Any:
        return self.out(self.body(self.embed(source), self.embed(target), source_mask, target_mask))


SPECIMENS: list[Specimen] = [
    specimen(
        PackedGru,
        ids("words", 50, "length"),
        ids("lengths", 4000, low=1),
        because="eager crashes on lengths beyond the row, so none is asked",
    ),
    specimen(LinearChain, ids("words", 50, 8), because="the best path and its score"),
    specimen(
        CachedDecoder,
        ids("word", 40, 1),
        *[floats(f"cache[{layer}][{part}]", "past", 8) for layer in range(2) for part in range(2)],
        because="lists in a list go in and come out",
    ),
    specimen(PeriodsOfTheData, floats("series", 24, 2), because="periods of each row's own spectrum"),
    specimen(CausalConvolutions, floats("series", "time", 6), because="cut at the end, any length"),
    specimen(SpeechToSymbols, floats("frames", "time", 8), because="any number of frames, and a number among the outputs"),
    specimen(PointerNetwork, floats("points", 5, 2, low=0, high=1), because="choices feed the next choice"),
    specimen(
        TranslationWithMasks, ids("source", 40, "source"), ids("target", 40, "target"), absent=("source_mask",), because="None for a mask"
    ),
]
