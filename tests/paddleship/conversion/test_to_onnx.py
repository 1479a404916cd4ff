"""What paddle2onnx gets wrong by itself, in programs that ONNX Runtime and OpenVINO answer as eager does."""

import sys

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.conversion import exporting
from paddleship.conversion.converting import Converter
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import isolate

SOURCE = """
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.vision.ops import DeformConv2D

class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.step, self.norm = nn.Linear(8, 8), nn.GroupNorm(2, 4, epsilon=0.1)

class Doubles(Base):
    def forward(self, x, rounds):
        y = self.norm(F.leaky_relu(self.step(x), 0.3).reshape([-1, 4, 2, 1]))
        larger = F.interpolate(y, scale_factor=[2, 1.5], mode="bilinear")
        return F.pad(larger, [1, 1, 0, 0], value=0.4) * rounds.max()

class Formulas(Base):
    def forward(self, x, rounds):
        y = F.gelu(self.step(x), approximate=True) + F.hardtanh(x, -0.3, 0.4) + F.gelu(x)
        filled = y.masked_fill((x > 0.1)[:, :1], -1e4)
        normal = self.norm(filled.reshape([-1, 4, 2]))
        return filled, normal, filled.amax(-1, keepdim=True), y.amin([0, 1]) * rounds.max()

class Deformed(Base):
    def __init__(self):
        super().__init__()
        self.shift, self.bend = nn.Conv2D(4, 54, 3, padding=1), DeformConv2D(4, 4, 3, padding=1, deformable_groups=2)

    def forward(self, x, rounds):
        picture = self.step(x).reshape([-1, 4, 2, 1])
        shift = self.shift(picture)
        return self.bend(picture, shift[:, :36], F.sigmoid(shift[:, 36:])) * rounds.max()

class ChannelsLast(Base):
    def __init__(self):
        super().__init__()
        last = {"data_format": "NHWC"}
        self.conv, self.depthwise = nn.Conv2D(2, 4, 3, padding=1, **last), nn.Conv2D(4, 4, 3, padding=1, groups=4, **last)
        self.back, self.batch, self.groups = nn.Conv2DTranspose(4, 4, 2, **last), nn.BatchNorm2D(4, **last), nn.GroupNorm(2, 4, **last)
        self.slope, self.words = nn.PReLU(4, init=0.4, **last), nn.Conv1D(4, 4, 3, data_format="NLC")

    def forward(self, x, rounds):
        y = self.groups(self.batch(self.depthwise(self.conv(self.step(x).reshape([-1, 2, 2, 2])))))
        y = F.interpolate(self.slope(self.back(y)), [5, 7], mode="bilinear", data_format="NHWC")
        pooled = F.max_pool2d(F.pad(y, [1, 0, 2, 1], value=0.3, data_format="NHWC"), 2, data_format="NHWC")
        return pooled, self.words(y.mean(1)), F.adaptive_avg_pool2d(y, 1, data_format="NHWC") * rounds.max()

class Means(Base):
    def forward(self, x, rounds):
        return self.step(x) + x.mean() * rounds.max()

class Lengths(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(4, 3, num_layers=2, direction="bidirectional")
        self.second, self.third = nn.GRU(6, 4, num_layers=2, time_major=True), nn.LSTM(4, 2)

    def forward(self, x, rounds):
        y, (state, _) = self.first(x.reshape([-1, 2, 4]).tile([1, 4, 1]), None, rounds + 1)
        z, last = self.second(y.transpose([1, 0, 2]), None, (rounds // 2 + 1).astype("int32"))
        return y, state, z, last, self.third(z.transpose([1, 0, 2]))[0]

class Messages(Base):
    def forward(self, x, rounds):
        return self.step(x) + paddle.geometric.send_u_recv(x, rounds * 0, rounds * 0, "sum", out_size=1)

class Begun(Base):
    def forward(self, x, rounds):
        begun = self.step(x)
        state, done = begun, paddle.zeros([], dtype="int64")
        while done < rounds.max():
            state = F.tanh(self.step(state)) + begun
            done = done + 1
        return state + begun

class Handed(Base):
    def forward(self, x, rounds):
        before, now, done = x, self.step(x), paddle.zeros([], dtype="int64")
        while done < rounds.max():
            before, now = now, before + 0.5 * now
            done = done + 1
        return before, now

class Early(Base):
    def forward(self, x, rounds):
        y, done = self.step(x), paddle.zeros([], dtype="int64")
        while done < rounds.max():
            y = F.tanh(self.step(y)) * 1.5
            if y.abs().mean() < 0.3:
                break
            done = done + 1
        return y

class Asked(Base):
    def forward(self, x, rounds):
        y, long = self.step(x), rounds.max() > 2
        if long:
            y = y * 2
        y = F.relu(y)
        if long:
            y = y - x
        return y

class Growing(Base):
    def forward(self, x, rounds):
        y, done = x, paddle.zeros([], dtype="int64")
        while done < rounds.max():
            y, done = paddle.concat([y, x], axis=1), done + 1
        return y.sum(1)

class Nested(Base):
    def forward(self, x, rounds):
        y, done = self.step(x), paddle.zeros([], dtype="int64")
        first = y
        while done < rounds.max():
            if y.abs().max() > 1.0:
                y = y / 2
            else:
                again = paddle.zeros([], dtype="int64")
                while again < done:
                    y, again = F.tanh(self.step(y)) + first, again + 1
            done = done + 1
        return y
"""
NOT_IN_OPENVINO = {"Lengths", "Deformed"}  # its CPU plugin answers as if no lengths were given, and knows no masked deformations
INPUTS = [
    {"name": "x", "dtype": "float32", "shape": ["batch", 8]},
    {"name": "rounds", "dtype": "int64", "shape": ["batch"], "low": 0, "high": 6},
]


@pytest.fixture(scope="module", autouse=True)
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_loops.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("their_loops", None)


def ask(load, *arguments, batches):
    with isolate.Isolated("asked", load, *arguments, timeout_s=100) as child:
        return [child.call("run", inputs) for inputs in batches]


@pytest.mark.parametrize(
    "name",
    ["Doubles", "Formulas", "Deformed", "ChannelsLast", "Means", "Lengths", "Begun", "Handed", "Early", "Asked", "Growing", "Nested"],
)
def test_what_paddle2onnx_gets_wrong_by_itself_answers_as_eager_does(tmp_path, name):
    settings = Model(factory=f"their_loops:{name}", inputs=INPUTS)
    paddle.seed(3)
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    source_model, exported = SourceModel(settings, tmp_path / "checkpoint"), tmp_path / "exported"
    exported.mkdir()
    random = np.random.default_rng(0)
    batches = [
        {"x": random.normal(size=(size, 8)).astype(np.float32), "rounds": random.integers(0, high, size)}
        for size, high in ((1, 1), (3, 2), (2, 6), (5, 4))
    ]
    specs = tuple(item.spec() for item in settings.inputs)
    base = Candidate("paddle", "theirs", "paddle", "float32", 1, specs, (), {"kind": "tensors"}, "", "")
    exporting.export(source_model, exported, base, probes=batches[1:3], timeout_s=100)
    expected = ask(Eager, source_model, batches=batches)
    converter = Converter(exported, tmp_path, threads=1, probe=batches[1], timeout_s=100)
    for candidate in ["onnxruntime"] if name in NOT_IN_OPENVINO else ["onnxruntime", "openvino"]:
        outcome = converter.make(candidate, tmp_path / candidate)
        assert outcome.made, f"{candidate}: {outcome.reason}"
        for answer, right in zip(ask(runtimes.load, tmp_path / candidate, batches=batches), expected, strict=True):
            assert list(answer) == list(right)
            for key, array in right.items():
                np.testing.assert_allclose(answer[key], array, rtol=1e-5, atol=1e-5)


def test_an_operator_that_paddle2onnx_does_not_know_is_named(tmp_path):
    settings = Model(factory="their_loops:Messages", inputs=INPUTS)
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    probe = {"x": np.ones((2, 8), np.float32), "rounds": np.ones(2, np.int64)}
    base = Candidate("paddle", "theirs", "paddle", "float32", 1, tuple(item.spec() for item in settings.inputs), (), {}, "", "")
    (tmp_path / "exported").mkdir()
    exporting.export(SourceModel(settings, tmp_path / "checkpoint"), tmp_path / "exported", base, probes=[probe], timeout_s=100)
    outcome = Converter(tmp_path / "exported", tmp_path, threads=1, probe=probe, timeout_s=100).make("onnxruntime", tmp_path / "made")
    assert "unsupported by paddle2onnx: [OP: send_u_recv]" in outcome.reason
