"""Models that a team might bring, exported once, and the converter that makes candidates of them."""

import sys

import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.conversion import exporting
from paddleship.conversion.converting import Converter
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing.candidate import Candidate
from tests.paddleship.conversion.helpers import batch

SOURCE = """
import paddle
from paddle import nn

class Digits(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.body(x)

class Pictures(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2D(1, 8, 3, padding=1)
        self.second = nn.Conv2D(8, 8, 3, padding=1)
        self.output = nn.Linear(8, 4)

    def forward(self, x):
        y = nn.functional.relu(self.first(x.reshape([-1, 1, 4, 4])))
        y = nn.functional.relu(self.second(y) + y)
        return self.output(y.mean([2, 3]))

class Pair(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.output = nn.Linear(16, 4)

    def forward(self, x, ids):
        y = self.table(ids).mean(1) + x
        return {"scores": self.output(y), "sum": y.sum(1)}

class Squares(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([1])

    def forward(self, x):
        return (x * x).sum(1) + self.scale

class Angles(Digits):
    def forward(self, x):
        return paddle.logit(nn.functional.sigmoid(self.body(x)), 0.01)

class Cell(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 4)

    def forward(self, x):
        return self.cell(x, x[:, :4])[0]

class Rounds(nn.Layer):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x):
        count = paddle.zeros([1], dtype="int64")
        while count < 3 + 0 * x.shape[0]:
            x = nn.functional.tanh(self.mix(x))
            count = count + 1
        return x

class Narrow(nn.Layer):
    def __init__(self):
        super().__init__()
        self.output = nn.Linear(2, 4)

    def forward(self, x):
        return self.output(x[:, :2])

class Lean(Digits):
    def __init__(self):
        super().__init__()
        for layer in (self.body[0], self.body[2]):
            size = paddle.to_tensor([1.0, 0.01, 1.0, 0.01]).tile([layer.weight.shape[0] // 4]).unsqueeze(1)
            layer.weight.set_value(layer.weight * size)

class Sums(nn.Layer):
    masked = True

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)

    def forward(self, x, ids):
        known = (ids > 0).astype("float32").unsqueeze(-1)
        words = self.table(ids) * (known if self.masked else paddle.ones_like(known))
        return {"sum": words.sum(1) + x, "words": words}

class SumsOfAll(Sums):
    masked = False

class Rows(Digits):
    def forward(self, x):
        import numpy as np
        weights = paddle.to_tensor(np.arange(x.shape[0], dtype="float32")) * 0 + 1
        return self.body(x) * weights.unsqueeze(1)
"""
X = {"name": "x", "dtype": "float32", "shape": ["batch", 16]}
IDS = {"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 9}
WITH_IDS = {"Pair", "Sums", "SumsOfAll"}


@pytest.fixture(scope="session")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_candidates.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("their_candidates", None)


@pytest.fixture(scope="session")
def source_model_of(theirs):
    """A model of theirs with fresh weights, and its exported program in `exported` beside the checkpoint."""
    made = {}

    def make(name, **sizes):
        if name not in made:
            settings = Model(factory=f"their_candidates:{name}", inputs=[X, IDS] if name in WITH_IDS else [X])
            folder = theirs / name
            (folder / "exported").mkdir(parents=True)
            paddle.seed(7)
            building.save(building.build(settings), folder / "checkpoint", {})
            source_model = SourceModel(settings, folder / "checkpoint")
            specs = tuple(item.spec() for item in settings.inputs)
            base = Candidate("paddle", "theirs", "paddle", "float32", 1, specs, (), {"kind": "tensors"}, "", "classification")
            probes = [batch(2), batch(3)]
            exporting.export(source_model, folder / "exported", base, probes=probes, timeout_s=100, sizes=lambda: sizes)
            made[name] = source_model
        return made[name]

    return make


@pytest.fixture
def workshop_of(source_model_of, tmp_path):
    def make(name, *, batches=None, timeout_s=100, sizes=None, **settings):
        exported = source_model_of(name, **(sizes or {})).checkpoint.parent / "exported"
        (tmp_path / "scratch").mkdir()
        rows = [batch(4, seed) for seed in range(16)] if batches is None else batches
        return Converter(exported, tmp_path / "scratch", threads=1, probe=batch(2), timeout_s=timeout_s, batches=rows, **settings)

    return make
