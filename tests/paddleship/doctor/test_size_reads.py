"""A size that is -1 during conversion, where Paddle does not rewrite the code that reads it, is named at the line that reads it."""

import sys

import pytest

from paddleship.config.sections.model import Model
from paddleship.doctor import examining, size_reads

MODELS = """
import paddle
from paddle import nn

class Graph:
    def __init__(self, x):
        self.x = x
        self.stored = x.shape[0]  # <- stored

    @property
    def n(self):
        return self.x.shape[0]  # <- property

class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

class Zeros(Base):
    def forward(self, x):
        return self.fc(x) + paddle.zeros([Graph(x).n, 4])

class Stored(Base):
    def forward(self, x):
        return paddle.concat([self.fc(x), paddle.full([Graph(x).stored, 1], 2.0)], axis=1)

class Rows(Base):
    def forward(self, x):
        return self.fc(x) + paddle.arange(Graph(x).n, dtype="float32").unsqueeze(1)

class Largest(Base):
    def forward(self, x):
        return self.fc(x) / max(Graph(x).n, 4)

class Sliced(Base):
    def forward(self, x):
        return paddle.concat([self.fc(x), paddle.digamma(x.abs() + 1)[: Graph(x).n]], axis=1)

class Reshaped(Base):
    def forward(self, x):
        return self.fc(x).reshape([Graph(x).n, 2, 2])
"""
X = {"name": "x", "dtype": "float32", "shape": ["n", 8]}


@pytest.fixture
def examine(tmp_path, monkeypatch):
    (tmp_path / "their_sizes.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_sizes", raising=False)

    def run(name):
        return examining.examine(Model(factory=f"their_sizes:{name}", inputs=[X]), work=tmp_path / "work", candidates=("paddle",))

    return run


def line(mark):
    return str(next(number for number, text in enumerate(MODELS.splitlines(), start=1) if f"<- {mark}" in text))


@pytest.mark.parametrize(
    ("name", "mark", "advice"),
    [
        ("Zeros", "property", "write paddle.shape(self.x) instead of self.x.shape"),
        ("Stored", "stored", "write paddle.shape(x) instead of x.shape"),
        ("Rows", "property", "write paddle.shape(self.x) instead of self.x.shape"),
        ("Largest", "property", "declare the dimension as a number"),
    ],
)
def test_a_size_that_is_read_as_minus_one_is_named_where_it_is_read(examine, name, mark, advice):
    found = examine(name)
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert (error.kind, error.where.rpartition(":")[2]) == ("unknown-size", line(mark)), str(found)
    assert advice in error.advice
    if found.runtimes["paddle"].status == "failed":
        assert any(finding.message.startswith("paddle is not proven: ") for finding in found.findings), str(found)


def test_a_size_that_is_read_as_minus_one_is_named_where_no_runtime_could_be_made(examine):
    found = examine("Sliced")
    assert found.runtimes["paddle"].status == "not made", str(found)
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert (error.kind, error.where.rpartition(":")[2]) == ("unknown-size", line("property")), str(found)
    assert "the program does not run because of it" in error.message


def test_a_size_that_is_read_as_minus_one_and_does_no_harm_is_not_named(examine):
    assert not [finding for finding in examine("Reshaped").findings if finding.kind == "unknown-size"]


def test_a_size_that_is_read_as_minus_one_is_not_blamed_for_an_error_that_stays_with_another_size():
    error = ("TypeError: no", "net.py:7")
    assert size_reads.of_error(error, ["net.py:3"], lambda: error) is None
    found = size_reads.of_error(error, ["net.py:3"], lambda: None)
    assert found is not None
    assert (found.kind, found.where) == ("unknown-size", "net.py:3")
    assert "TypeError: no" in found.message
