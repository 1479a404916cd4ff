"""A statement that the conversion changes is named only if eager with that change answers as the program."""

import linecache
import sys

import numpy as np
import pytest

from paddleship.config.sections.model import Model
from paddleship.doctor import ast_lint, changed_statements
from paddleship.doctor.changed_statements import Answered
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel

MODELS = """
import paddle
from paddle import nn

class Decodes(nn.Layer):
    def forward(self, x):
        y = x * 2
        y.clip_(max=3.0)  # <- one
        y.scale_(1.0)
        for i in range(5):
            for j in range(9):
                if j > 2:
                    break
            if i == 2:
                break
        return y + 10 * i

class Masks(nn.Layer):
    def forward(self, x):
        y, z = x * 2, x * 3
        y.clip_(max=3.0)  # <- both
        z.clip_(max=3.0)  # <- both
        return y + z
"""
X = np.array([[1.0, 2.0]], np.float32)


@pytest.fixture
def find(tmp_path, monkeypatch):
    (tmp_path / "their_changed.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    ast_lint._of_file.cache_clear()
    ast_lint._parsed.cache_clear()

    def run(name, wrong):
        inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]
        source_model = SourceModel(Model(factory=f"their_changed:{name}", inputs=inputs), tmp_path / name, 0)
        building.save(source_model.build(), tmp_path / name, {})
        first, last = MODELS.partition(f"class {name}(")[0].count("\n"), len(MODELS.splitlines())
        lines = {(f"{tmp_path}/their_changed.py", line) for line in range(first, last)}
        suspects = [one for one in ast_lint.suspects(lines) if one.pattern in changed_statements.PATTERNS]
        before = Eager(source_model).run({"x": X})
        found = changed_statements.find(source_model, suspects, [Answered({"x": X}, {"output": np.array([wrong], np.float32)})])
        assert np.array_equal(Eager(source_model).run({"x": X})["output"], before["output"])  # the functions are as they were
        return found

    yield run
    sys.modules.pop("their_changed", None)
    linecache.clearcache()


def marked(mark):
    return [number for number, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# <- {mark}")]


def test_a_call_in_place_is_the_cause_if_eager_without_it_answers_as_the_program(find):
    (found,) = find("Decodes", [22.0, 24.0])
    assert (found.kind, int(found.where.rpartition(":")[2])) == ("changed-statement", *marked("one"))
    assert "drops this call of clip_()" in found.message


def test_a_loop_variable_that_is_one_further_after_break_is_the_cause(find):
    (found,) = find("Decodes", [32.0, 33.0])
    assert MODELS.splitlines()[int(found.where.rpartition(":")[2]) - 1].strip() == "for i in range(5):"
    assert "the loop variable 'i' is one further" in found.message


def test_several_calls_that_only_together_explain_the_answer_are_all_named(find):
    assert [int(one.where.rpartition(":")[2]) for one in find("Masks", [5.0, 10.0])] == marked("both")


def test_no_statement_is_named_whose_change_explains_nothing(find):
    assert find("Decodes", [22.0, 25.0]) == []
