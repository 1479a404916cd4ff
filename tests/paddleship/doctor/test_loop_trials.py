"""A value that a loop over a tensor cannot hold is named at its line, where the model is right without it, and only there."""

import ast
import sys

import pytest

from paddleship.config.sections.model import Model
from paddleship.doctor import ast_lint, examining, loop_rewrites, loop_values

MODELS = """
import math
import paddle
from paddle import nn

class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

class Grown(Base):
    def forward(self, x):
        outputs = None  # <- Grown
        for i in range(x.shape[0]):
            y = self.net(x[i])
            if outputs is None:
                outputs = y.unsqueeze(0)
            else:
                outputs = paddle.concat([outputs, y.unsqueeze(0)])
        return nn.functional.softmax(outputs, axis=-1)

class Repeated(Base):
    def forward(self, x, steps):
        outputs = None  # <- Repeated
        for i in range(steps):
            x = self.net(x)
            if outputs is None:
                outputs = x.unsqueeze(1)
            else:
                outputs = paddle.concat([outputs, x.unsqueeze(1)], axis=1)
        return nn.functional.softmax(outputs, axis=-1)

class Before(Base):
    def forward(self, x):
        before, y = None, paddle.zeros([1, 4])  # <- Before
        for i in range(x.shape[0]):
            y = self.step(x[i : i + 1], y, before)
            before = y * 2
        return y

    def step(self, row, y, before):
        return self.net(row) + y if before is None else self.net(row) + y + before

class Filled(Base):
    def forward(self, x):
        outputs, self.rows = [], []
        for row in x:
            y = self.net(row.unsqueeze(0))
            outputs.append(y)
            self.rows.append(y)  # <- Filled
        return paddle.concat(outputs)

class Last(Base):
    def forward(self, x):
        outputs = []
        for row in x:
            self.last = self.net(row.unsqueeze(0))  # <- Last
            outputs.append(self.last)
        return paddle.concat(outputs)

class Summed(Base):
    def forward(self, x):
        total = 0.0  # <- Summed
        for i in range(x.shape[0]):
            total += self.net(x[i]).mean()
        return total * 0.15

class Largest(Base):
    def forward(self, x):
        count, best = 0, float("-inf")  # <- Largest
        for i in range(x.shape[0]):
            y = self.net(x[i]).max()
            count += 1
            if y > best:
                best = y
        return best * count

class Several(Base):
    def forward(self, x):
        joined = None  # <- Several
        double = None
        idle = None
        for i in range(x.shape[0]):
            idle = self.net(x[i : i + 1])
            double = idle * 2
            joined = idle if joined is None else paddle.concat([joined, idle])
        return joined + double

class Unrolled(Base):
    def forward(self, x, scale=None):
        total, before, self.rows = 0.0, None, []
        for i in range(3):
            y = self.net(x)
            self.rows.append(y)
            total += y if before is None else y + before
            before = y
            scale = total.mean()
        return total * scale

class Listed(Base):
    def forward(self, x):
        total, parts = 0.0, []
        for i in range(3):
            total += self.net(x).mean()
        for _ in range(paddle.to_tensor(3)):
            x = self.net(x)
            parts.append(x)
        return paddle.stack(parts, 1) + total

class Unrelated(Base):
    def forward(self, x):
        total, before = 0.0, None
        for i in range(3):
            total += self.net(x).mean() if before is None else before
            before = total
        return total + math.sin(x.sum())
"""
ROWS = {"name": "x", "dtype": "float32", "shape": ["rows", 4]}
CAUSES = [
    ("Grown", "'outputs' is None before a loop", "paddle.zeros([n, 0, 4])"),
    ("Before", "'before' is None before a loop", "write the first step before the loop"),
    ("Filled", "'self.rows' is filled or assigned in a loop", "use a local list or tensor in the loop (rows, not self.rows)"),
    ("Last", "'self.last' is filled or assigned in a loop", "(last, not self.last)"),
    ("Summed", "'total' is a Python number before a loop", "write total = paddle.zeros([])"),
    ("Largest", "'best' is a Python number before a loop", "write best = paddle.full([], float('-inf'))"),
]


@pytest.fixture
def examine(tmp_path, monkeypatch):
    (tmp_path / "their_loops.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_loops", raising=False)

    def run(name, *inputs, candidates=("paddle",)):
        model = Model(factory=f"their_loops:{name}", inputs=[ROWS, *inputs])
        return examining.examine(model, work=tmp_path / "work", candidates=candidates)

    return run


@pytest.mark.parametrize(("name", "message", "advice"), CAUSES)
def test_a_value_that_a_loop_cannot_hold_is_the_only_error_and_has_its_line(examine, name, message, advice):
    found = examine(name)
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    line = next(number for number, text in enumerate(MODELS.splitlines(), start=1) if text.endswith(f"# <- {name}"))
    assert (error.kind, error.where.rpartition(":")[2]) == ("loop-value", str(line)), str(found)
    assert message in error.message
    assert advice in error.advice


def test_a_value_is_named_although_eager_fails_on_it_after_one_step(examine):
    found = examine("Repeated", {"name": "steps", "dtype": "int64", "shape": [], "low": 1, "high": 3})
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert error.message.startswith("'outputs' is None before a loop"), str(found)


def test_such_values_in_a_loop_that_is_unrolled_are_right(examine):
    found = examine("Unrolled")
    assert found.runtimes["paddle"].status == "proven", str(found)
    assert not [finding for finding in found.findings if finding.kind == "loop-value"]


def test_such_values_in_a_model_that_fails_for_another_reason_are_not_named(examine):
    found = examine("Unrelated")
    assert {finding.kind for finding in found.findings if finding.severity == "error"} == {"python-value"}, str(found)


def test_such_values_are_not_named_for_a_runtime_that_fails_on_a_program_that_is_right(examine):
    found = examine("Listed", candidates=("onnxruntime",))
    assert found.runtimes["onnxruntime"].status != "proven", str(found)
    assert not [finding for finding in found.findings if finding.kind == "loop-value"], str(found)


def test_of_several_values_of_a_loop_those_that_do_harm_are_named(examine):
    (error,) = [finding for finding in examine("Several").findings if finding.severity == "error"]
    assert error.message.startswith("'joined' is None before a loop")
    assert "(as is 'double', line " in error.message
    assert "'idle'" not in error.message


def read(source):
    (function,) = ast.parse(source).body
    return list(loop_values.read(function))


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("y = None", [(loop_values.NONE, 2, "y")]),
        ("z, y = [], None", [(loop_values.NONE, 2, "y")]),
        ("y = -1e9", [(loop_values.NUMBER, 2, "y")]),
        ("y = float('inf')", [(loop_values.NUMBER, 2, "y")]),
        ("y = False", []),
        ("y = x * 0", []),
        ("z = None", []),
    ],
)
def test_values_before_a_loop_are_read_where_the_loop_assigns_them(before, found):
    assert read(f"def forward(self, x):\n    {before}\n    for row in x:\n        y = row\n    return y\n") == found


def test_an_argument_without_a_value_is_read_unless_it_gets_one_before_the_loop():
    loop = "    for row in x:\n        y = row\n    return y\n"
    assert read(f"def forward(self, x, y=None):\n{loop}") == [(loop_values.NONE, 2, "y")]
    assert read(f"def forward(self, x, y=None):\n    y = y or x\n{loop}") == []


@pytest.mark.parametrize(
    ("header", "first", "rest"),
    [
        ("for i in range(n)", "i = 0", "range(0 + 1, n, 1)"),
        ("for i in range(2, n, 3)", "i = 2", "range(2 + 3, n, 3)"),
        ("for i in x", "i = _steps[0]", "_steps[1:]"),
        ("while x.any()", "y = i", "while x.any()"),
    ],
)
def test_the_first_step_of_a_loop_is_written_before_it(tmp_path, header, first, rest):
    path = tmp_path / "net.py"
    path.write_text(f"def forward(self, x, n, i):\n    y = None\n    {header}:\n        y = i\n    return y\n")
    (suspect,) = [one for one in ast_lint.at(f"{path}:2") if one.pattern == loop_values.NONE]
    source = loop_rewrites.rewritten(str(path), [(suspect, loop_rewrites.FIRST_STEP)])
    assert source.index(first) < source.index(rest)
    assert source.count("y = i") == 2
