"""Models as somebody's public repository would have them: longer, idiomatic, and not written for this zoo's sake."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from benchmarks.zoo.specimen import Specimen, floats, ids, image, specimen


class CRNN(nn.Layer):
    """Text line recognition: convolutions, then a bidirectional LSTM over columns, scores for CTC."""

    def __init__(self, classes: int = 20, hidden: int = 16) -> None:
        super().__init__()
        widths, pools = [1, 8, 16, 16], [(2, 2), (2, 2), (2, 1)]
        blocks: list[Any] = []
        for before, after, pool in zip(widths, widths[1:], pools):
            blocks += [nn.Conv2D(before, after, 3, padding=1), nn.BatchNorm2D(after), nn.ReLU(), nn.MaxPool2D(pool, pool)]
        self.cnn = nn.Sequential(*blocks)
        self.rnn = nn.LSTM(widths[-1] * 2, hidden, direction="bidirect")
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x: Any) -> Any:
        x = self.cnn(x)
        x = x.flatten(1, 2).transpose([0, 2, 1])
        x, _ = self.rnn(x)
        x = self.fc(x)
        return x if self.training else F.softmax(x, axis=2)


class DoubleConv(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            nn.Conv2D(before, after, 3, padding=1), nn.BatchNorm2D(after), nn.ReLU(), nn.Conv2D(after, after, 3, padding=1), nn.ReLU()
        )


class UNet(nn.Layer):
    """Segmentation with skip connections and transposed convolutions, padded where sizes are odd."""

    def __init__(self, classes: int = 2, width: int = 8) -> None:
        super().__init__()
        self.down = nn.LayerList([DoubleConv(3, width), DoubleConv(width, 2 * width)])
        self.middle = DoubleConv(2 * width, 4 * width)
        self.up = nn.LayerList([nn.Conv2DTranspose(4 * width, 2 * width, 2, stride=2), nn.Conv2DTranspose(2 * width, width, 2, stride=2)])
        self.merge = nn.LayerList([DoubleConv(4 * width, 2 * width), DoubleConv(2 * width, width)])
        self.out = nn.Conv2D(width, classes, 1)

    def forward(self, image: Any) -> Any:
        x, skips = image, []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips)):
            x = up(x)
            dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = merge(paddle.concat([skip, x], axis=1))
        return self.out(x)


class Attention(nn.Layer):
    def __init__(self, dim: int, num_heads: int, qkv_bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias_attr=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Any) -> Any:
        n, c = x.shape[1:]
        qkv = self.qkv(x).reshape((-1, n, 3, self.num_heads, c // self.num_heads)).transpose((2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        attention = F.softmax(q.matmul(k.transpose((0, 1, 3, 2))) * self.scale, axis=-1)
        return self.proj(attention.matmul(v).transpose((0, 2, 1, 3)).reshape((-1, n, c)))


class VisionTransformer(nn.Layer):
    """Patches, a class token, learned positions, pre-norm blocks with stochastic depth."""

    def __init__(self, image_size: int = 32, patch: int = 8, dim: int = 24, depth: int = 2, classes: int = 10) -> None:
        super().__init__()
        count = (image_size // patch) ** 2
        self.patch_embed = nn.Conv2D(3, dim, patch, stride=patch)
        self.cls_token = self.create_parameter([1, 1, dim], default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        self.pos_embed = self.create_parameter([1, count + 1, dim], default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        self.add_parameter("cls_token", self.cls_token)
        self.norms = nn.LayerList([nn.LayerNorm(dim, epsilon=1e-6) for _ in range(2 * depth + 1)])
        self.mixers = nn.LayerList([Attention(dim, 4) for _ in range(depth)])
        self.mlps = nn.LayerList([nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)])
        self.drop_path = 0.1
        self.head = nn.Linear(dim, classes)

    def _drop(self, x: Any) -> Any:
        if self.drop_path == 0.0 or not self.training:
            return x
        keep = paddle.floor(1.0 - self.drop_path + paddle.rand([x.shape[0], 1, 1], dtype=x.dtype))
        return x / (1.0 - self.drop_path) * keep

    def forward(self, image: Any) -> Any:
        x = self.patch_embed(image).flatten(2).transpose((0, 2, 1))
        tokens = self.cls_token.expand((x.shape[0], -1, -1))
        x = paddle.concat((tokens, x), axis=1) + self.pos_embed
        for i, (mixer, mlp) in enumerate(zip(self.mixers, self.mlps)):
            x = x + self._drop(mixer(self.norms[2 * i](x)))
            x = x + self._drop(mlp(self.norms[2 * i + 1](x)))
        return self.head(self.norms[-1](x)[:, 0])


class YoloHead(nn.Layer):
    """Two scales of anchors, decoded to boxes and scores in evaluation, raw maps in training."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.anchors = [[(10.0, 13.0), (16.0, 30.0)], [(30.0, 61.0), (62.0, 45.0)]]
        self.strides = [8, 16]
        self.outputs = classes + 5
        self.stem = nn.Sequential(nn.Conv2D(3, 16, 3, stride=8, padding=1), nn.BatchNorm2D(16), nn.Silu())
        self.down = nn.Sequential(nn.Conv2D(16, 16, 3, stride=2, padding=1), nn.BatchNorm2D(16), nn.Silu())
        self.heads = nn.LayerList([nn.Conv2D(16, 2 * self.outputs, 1) for _ in range(2)])

    def _decode(self, raw: Any, anchors: list[tuple[float, float]], stride: int) -> Any:
        height, width = raw.shape[2:]
        raw = raw.reshape([-1, 2, self.outputs, height, width]).transpose([0, 1, 3, 4, 2])
        ys, xs = paddle.meshgrid(paddle.arange(height), paddle.arange(width))
        grid = paddle.stack([xs, ys], axis=-1).astype(raw.dtype)
        centre = (F.sigmoid(raw[..., 0:2]) * 2.0 - 0.5 + grid) * stride
        size = (F.sigmoid(raw[..., 2:4]) * 2.0) ** 2 * paddle.to_tensor(anchors, dtype=raw.dtype).reshape([1, 2, 1, 1, 2])
        return paddle.concat([centre, size, F.sigmoid(raw[..., 4:])], axis=-1).reshape([-1, 2 * height * width, self.outputs])

    def forward(self, image: Any) -> Any:
        fine = self.stem(image)
        maps = [head(features) for head, features in zip(self.heads, (fine, self.down(fine)))]
        if self.training:
            return maps
        rows = paddle.concat([self._decode(*parts) for parts in zip(maps, self.anchors, self.strides)], axis=1)
        return {"boxes": rows[..., :4], "scores": rows[..., 4:5] * rows[..., 5:]}


class TextCNN(nn.Layer):
    """Convolutions of three widths over embedded words, the largest of each."""

    def __init__(self, vocabulary: int = 200, dim: int = 16, classes: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.convs = nn.LayerList([nn.Conv2D(1, 8, (size, dim)) for size in (2, 3, 4)])
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(24, classes)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids).unsqueeze(1)
        pooled = [F.relu(conv(x)).squeeze(3).max(axis=2) for conv in self.convs]
        return self.fc(self.dropout(paddle.concat(pooled, axis=1)))


class DeepFM(nn.Layer):
    """Click prediction from sparse fields, dense features and one bag of tags: factorisation machine beside a network."""

    def __init__(self, size: int = 100, dim: int = 8) -> None:
        super().__init__()
        self.linear = nn.Embedding(size, 1)
        self.factors = nn.Embedding(size, dim)
        self.dense = nn.Linear(4, 1)
        self.deep = nn.Sequential(nn.Linear(3 * dim + 4, 32), nn.BatchNorm1D(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user: Any, item: Any, tags: Any, dense: Any) -> Any:
        known = (tags > 0).astype("float32").unsqueeze(-1)
        bag = (self.factors(tags) * known).sum(axis=1, keepdim=True) / paddle.maximum(known.sum(axis=1, keepdim=True), paddle.ones([1]))
        fields = paddle.concat([self.factors(user), self.factors(item), bag], axis=1)
        first = self.linear(user).sum(axis=[1, 2]) + self.linear(item).sum(axis=[1, 2]) + self.dense(dense).squeeze(-1)
        second = 0.5 * (fields.sum(axis=1).square() - fields.square().sum(axis=1)).sum(axis=-1)
        deep = self.deep(paddle.concat([fields.flatten(1), dense], axis=-1)).squeeze(-1)
        return F.sigmoid(first + second + deep)


class Seq2Seq(nn.Layer):
    """Encoder, decoder and additive attention, teacher-forced over the target."""

    def __init__(self, source_size: int = 60, target_size: int = 50, dim: int = 16) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(source_size, dim), nn.Embedding(target_size, dim)
        self.encoder, self.cell = nn.GRU(dim, dim), nn.GRUCell(2 * dim, dim)
        self.query, self.key, self.energy = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1, bias_attr=False)
        self.out = nn.Linear(dim, target_size)

    def forward(self, source: Any, target: Any) -> Any:
        memory, state = self.encoder(self.source(source))
        state, keys, embedded = state[0], self.key(memory), self.target(target)
        outputs = []
        for step in range(target.shape[1]):
            weights = F.softmax(self.energy(paddle.tanh(keys + self.query(state).unsqueeze(1))), axis=1)
            context = (weights * memory).sum(axis=1)
            output, state = self.cell(paddle.concat([embedded[:, step], context], axis=-1), state)
            outputs.append(self.out(output))
        return paddle.stack(outputs, axis=1)


class GRU4Rec(nn.Layer):
    """Session-based recommendation: the last state against every item, the best few returned."""

    def __init__(self, items: int = 300, dim: int = 16) -> None:
        super().__init__()
        self.item_embedding = nn.Embedding(items, dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim, num_layers=2, dropout=0.2)
        self.project = nn.Linear(dim, dim)

    def forward(self, history: Any) -> Any:
        output, _ = self.gru(self.item_embedding(history))
        lengths = (history != 0).astype("int64").sum(axis=1).clip(min=1)
        rows = paddle.arange(history.shape[0])
        last = output.gather_nd(paddle.stack([rows, lengths - 1], axis=1))
        scores = paddle.matmul(self.project(last), self.item_embedding.weight, transpose_y=True)
        best, places = paddle.topk(scores, 10)
        return {"scores": best, "items": places}


SPECIMENS: list[Specimen] = [
    specimen(CRNN, floats("line", 1, 16, "width"), because="OCR: convolutions, then an LSTM over a dynamic width"),
    specimen(UNet, floats("image", 3, "height", "width"), because="segmentation of any size, padded by what sizes are left"),
    specimen(VisionTransformer, image(), because="class token, positions, stochastic depth that sleeps"),
    specimen(YoloHead, image(), because="anchors decoded in evaluation only"),
    specimen(TextCNN, ids("words", 200, "length"), because="three widths of convolution over words"),
    specimen(
        DeepFM, ids("user", 100, 1), ids("item", 100, 1), ids("tags", 100, "tags"), floats("dense", 4), because="several sparse inputs"
    ),
    specimen(Seq2Seq, ids("source", 60, "source"), ids("target", 50, 6), because="attention in a decoder's loop"),
    specimen(GRU4Rec, ids("history", 300, "length"), because="the last real step, and top-k over all items"),
]
