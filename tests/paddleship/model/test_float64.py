"""Operator by operator in float64: casts, constants and layers that say float32 do not matter, and nothing stays changed afterwards."""

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.nn import functional as F

from paddleship.model.float64 import Doubled

ROWS = np.random.default_rng(0).normal(size=(2, 12, 4)).astype(np.float32)


class SaysFloat32(nn.Layer):
    """Most ways to insist on float32."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(4, 8, 2, direction="bidirect"), nn.Linear(16, 3)
        self.attend, self.norm = nn.MultiHeadAttention(16, 2), nn.BatchNorm1D(12)
        self.constant = paddle.to_tensor(np.linspace(-1, 1, 16).astype(np.float32))

    def forward(self, x):
        hidden = self.norm(self.gru(x.astype("float32"))[0]) + self.constant
        hidden = self.attend(hidden, hidden, hidden)
        strength = paddle.fft.rfft(hidden, axis=1).abs().mean(1)
        filled = paddle.to_tensor(np.zeros((2, 16), np.float32))
        filled[:, 0] = hidden[:, 0, 0]
        mask = paddle.zeros([2, 16], dtype="float32")
        mask[0] = strength[0]
        sampled = F.interpolate(hidden.unsqueeze(1), size=[4, 4], mode="bilinear").mean([1, 2, 3])
        logits = self.head((strength + paddle.abs(filled) + mask) @ paddle.eye(16, dtype="float32")) + sampled.unsqueeze(-1)
        return [F.softmax(2.0 * logits, dtype="float32"), paddle.topk(logits, 2)[0], paddle.einsum("bi,bj->bij", logits, logits)]


@pytest.fixture
def layer():
    paddle.seed(0)
    made = SaysFloat32()
    made.eval()
    return made


def ask(layer, rows=ROWS):
    with paddle.no_grad():
        return [tensor.numpy() for tensor in layer(paddle.to_tensor(rows))]


def test_every_operator_computes_in_float64_whatever_the_code_says(layer):
    before = ask(layer)
    with Doubled():
        exact = ask(layer)
    for single, double in zip(before, exact, strict=True):
        assert (single.dtype, double.dtype) == (np.float32, np.float64)
        assert 0 < np.abs(single - double).max() < 1e-5 * np.abs(double).max()
        assert not np.array_equal(double, double.astype(np.float32))


def test_it_is_closer_to_the_truth_than_float32_is():
    matrix = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    truth = matrix.astype(np.float64) @ matrix.astype(np.float64)
    with Doubled():
        answer = (paddle.to_tensor(matrix) @ paddle.to_tensor(matrix)).numpy()
    assert np.abs(answer - truth).max() < 1e-13 * np.abs(truth).max()


def test_afterwards_everything_is_as_before(layer):
    before, matmul, add = ask(layer), paddle._C_ops.matmul, paddle.Tensor.__add__
    with pytest.raises(ValueError, match="on purpose"), Doubled():
        raise ValueError("on purpose")
    assert (paddle._C_ops.matmul, paddle.Tensor.__add__) == (matmul, add)
    assert all(np.array_equal(one, two) for one, two in zip(before, ask(layer), strict=True))


def test_whole_numbers_and_bools_keep_their_dtypes():
    with Doubled():
        ids = paddle.to_tensor(np.arange(4))
        assert (ids + 1).dtype == paddle.int64
        assert (ids > 2).dtype == paddle.bool
        assert ids.astype("int32").dtype == paddle.int32


def test_what_fails_in_both_precisions_fails_with_paddles_own_words():
    with Doubled(), pytest.raises(ValueError, match="matmul"):
        paddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))


def test_an_operator_without_a_float64_kernel_computes_in_float32_and_is_named(monkeypatch):
    tanh = paddle._C_ops.tanh

    def only_float32(tensor):
        if tensor.dtype != paddle.float32:
            raise RuntimeError("no kernel for float64")
        return tanh(tensor)

    monkeypatch.setattr(paddle._C_ops, "tanh", only_float32)
    doubled = Doubled()
    with doubled:
        answer = paddle._C_ops.tanh(paddle.to_tensor(ROWS))
    assert doubled.single == {"tanh"}
    assert answer.dtype == paddle.float64
