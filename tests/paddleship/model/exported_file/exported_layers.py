"""Layers as people export them, for `test_layers.py`: each with the inputs of its program."""

import paddle
from paddle import nn
from paddle.nn import functional
from paddle.static import InputSpec

PICTURE = [InputSpec([None, 3, 16, 16], "float32", "x")]
SEQUENCE = [InputSpec([None, None, 4], "float32", "x")]
IDS = [InputSpec([None, None], "int64", "ids")]
ROWS = [InputSpec([None, 4], "float32", "x")]


class Called(nn.Layer):
    """A layer whose forward is a function of its parts and the input."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


class Recurrent(nn.Layer):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.body = kind(8, 6, num_layers=2, direction="bidirect")
        self.head = nn.Linear(12, 3)

    def forward(self, ids, lengths):
        return self.head(self.body(self.embedding(ids), sequence_length=lengths)[0])


class Encoder(nn.Layer):
    """A small BERT."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(30, 16, padding_idx=0), nn.Embedding(20, 16)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, activation="gelu"), 2)
        self.head = nn.Linear(16, 3)

    def forward(self, ids):
        mask = ((ids == 0).astype("float32") * -1e9).unsqueeze([1, 2])
        return self.head(self.body(self.words(ids) + self.positions(paddle.arange(ids.shape[1]).unsqueeze(0)), mask)[:, 0])


class Several(nn.Layer):
    """Three inputs, and outputs in a dict."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, a, b, flag):
        return {"z": self.linear(a) + b, "y": b * 2, "w": paddle.logical_not(flag)}


class Branches(nn.Layer):
    """An `if` in an `if`, and a loop."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y, z = self.linear(x), x
        if y.mean() > 0:
            if x.max() > 1:
                y, z = y * 2, z + 1
            else:
                y, z = y * 3, z - 1
        else:
            y, z = y - 1, z * 2
        count = paddle.zeros([], "int64")
        while count < x.shape[0]:
            y = y + z[count].sum()
            count = count + 1
        return y, z, count


class Assigned(nn.Layer):
    def forward(self, x):
        y = x * 1
        y[:, 0] = 1.0
        y[:, 1, 2:4] = x[:, 0, 0:2]
        return y


def _called(specs, function, **parts):
    return lambda: (Called(function, **parts), specs)


def _reduced(_, x):
    sums = x.sum(-1), x.mean(), x.max(1), x.min([2, 3]), paddle.logsumexp(x, -1), x.cumsum(1), x.norm(axis=-1)
    choices = x.argmax(-1), x.argmin(1), x.argmax(), x.argmax(1, keepdim=True), x.argsort(-1), x.sort(-1), *paddle.topk(x, 3)
    return *sums, *choices, (x > 0).any(-1), (x > 0).all(-1)


def _cut(_, x):
    parts = paddle.split(x, 3, 1)
    pieces = paddle.concat(parts[::-1], 1), paddle.stack(parts, 0), paddle.split(x, [1, 2], 1)[1], paddle.chunk(x, 2, -1)[1]
    return *pieces, x[:, 0], x[:, :, 1:-1:2], x[..., ::-1], paddle.roll(x, 1, -1), paddle.tile(x, [1, 2, 1, 1])


def _shaped(_, x):
    dynamic = x.reshape([x.shape[0], -1]), paddle.expand(x[:, :1], [x.shape[0], 5, 16, 16]), paddle.zeros([x.shape[0], 2])
    padded = functional.pad(x, [1, 2, 1, 2], mode="reflect"), functional.unfold(x, 3), functional.pad(x, [1, 1, 2, 2])
    return *dynamic, *padded, x.flatten(1), x.transpose([0, 2, 3, 1]), x.unsqueeze(1), paddle.tril(x)


def _gathered(_, x):
    picked = paddle.gather(x, paddle.to_tensor([0, 2]), 1), paddle.index_select(x, paddle.to_tensor([1]), 2)
    along = paddle.take_along_axis(x, x.argmax(-1, keepdim=True), -1), functional.one_hot(x.argmax(-1), 16)
    return *picked, *along, paddle.linspace(0, 1, 16) + x, paddle.masked_fill(x, x > 0, 0.0)


def _activated(self, x):
    smooth = functional.softmax(x, 1), functional.log_softmax(x, -1), functional.gelu(x), functional.gelu(x, approximate=True)
    others = functional.leaky_relu(x), functional.elu(x), functional.mish(x), functional.softplus(x), functional.swish(x)
    return *smooth, *others, functional.hardsigmoid(x), functional.hardswish(x), functional.relu6(x), self.slope(x)


def _resized(_, x):
    factors = functional.interpolate(x, scale_factor=2, mode="bilinear"), functional.interpolate(x, scale_factor=[2.0, 2.0], mode="bicubic")
    return *factors, functional.interpolate(x, size=[5, 7], mode="nearest"), functional.upsample(x, scale_factor=2)


def _calculated(_, x):
    plain = x - x * 2 + 1.5, x * x, x / 3, x**2, x % 3, paddle.pow(x.abs(), 0.5), x.clip(-1, 1), paddle.maximum(x, -x)
    return *plain, paddle.where(x > 0, x, x * 2), x.astype("int32") * 2, paddle.einsum("bchw,bcwk->bchk", x, x), paddle.erf(x)


LAYERS = {
    "activations": _called(PICTURE, _activated, slope=nn.PReLU()),
    "arithmetic": _called(PICTURE, _calculated),
    "assigned slices": lambda: (Assigned(), PICTURE),
    "attention": _called(SEQUENCE, lambda self, x: self.body(x, x, x), body=nn.MultiHeadAttention(4, 2)),
    "branches and loops": lambda: (paddle.jit.to_static(Branches(), full_graph=True), ROWS),
    "concat, split, slice": _called(PICTURE, _cut),
    "convolution, batch norm, pool": _called(
        PICTURE,
        lambda self, x: functional.avg_pool2d(functional.relu(self.norm(self.conv(x))), 2),
        conv=nn.Conv2D(3, 6, 3),
        norm=nn.BatchNorm2D(6),
    ),
    "depthwise, dilated, transposed": _called(
        PICTURE,
        lambda self, x: (self.depthwise(x), self.dilated(x), self.transposed(x)),
        depthwise=nn.Conv2D(3, 6, 3, groups=3),
        dilated=nn.Conv2D(3, 4, 3, dilation=2),
        transposed=nn.Conv2DTranspose(3, 4, 2, 2),
    ),
    "embedding and encoder": lambda: (Encoder(), IDS),
    "gather": _called(PICTURE, _gathered),
    "GRU": lambda: (Recurrent(nn.GRU), [*IDS, InputSpec([None], "int64", "lengths")]),
    "interpolate": _called(PICTURE, _resized),
    "LSTM": lambda: (Recurrent(nn.LSTM), [*IDS, InputSpec([None], "int64", "lengths")]),
    "norms": _called(
        PICTURE, lambda self, x: (self.layer(x), self.group(x), self.instance(x), functional.normalize(x)),
        layer=nn.LayerNorm([16]), group=nn.GroupNorm(3, 3), instance=nn.InstanceNorm2D(3),
    ),
    "pools": _called(
        PICTURE,
        lambda _, x: (functional.max_pool2d(x, 3, 2, 1), functional.adaptive_avg_pool2d(x, [3, 5]), functional.adaptive_max_pool2d(x, 4)),
    ),
    "reductions and choices": _called(PICTURE, _reduced),
    "several inputs and outputs": lambda: (Several(), [InputSpec([None, 4], "float32", "a"), InputSpec([None, 4], "float32", "b"),
                                                       InputSpec([None], "bool", "flag")]),
    "shapes": _called(PICTURE, _shaped),
}  # fmt: skip
