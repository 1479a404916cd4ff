"""A metric whose code, or whose helpers or constants, changed is another metric; the rest of its module does not count."""

import sys

import pytest

from paddleship.data.task_kinds import registry
from paddleship.shipped.computing.task_kinds.registration import with_functions

HELPERS = """
WEIGHT = 2


def weighted(value):
    return WEIGHT * value
"""
MODULE = """
from functools import partial

import numpy as np

import helpers_of_metric
from helpers_of_metric import weighted

LEVELS = (1, 2)
FLOOR = np.zeros(2)


class Scale:
    def of(self, value):
        return value * LEVELS[0]


def build():
    return "a model"


def metric(outputs, labels):
    from helpers_of_metric import WEIGHT as weight

    return Scale().of(weighted(outputs.mean())) - FLOOR[0] * weight * helpers_of_metric.WEIGHT


bound = partial(metric, labels=None)
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A function that writes both modules, with changes, and returns the code of the score of a metric in them."""
    monkeypatch.syspath_prepend(tmp_path)

    def of(old="", new="", *, name="metric", **functions):
        for module, text in (("helpers_of_metric", HELPERS), ("module_of_metric", MODULE)):
            sys.modules.pop(module, None)
            (tmp_path / f"{module}.py").write_text(text.replace(old, new) if old else text)
        return registry.score_code(with_functions("custom", {"metric": f"module_of_metric:{name}", **functions}))

    yield of
    for module in ("helpers_of_metric", "module_of_metric"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("outputs.mean()", "outputs.max()"),
        ("return WEIGHT * value", "return value"),
        ("WEIGHT = 2", "WEIGHT = 3"),
        ("LEVELS = (1, 2)", "LEVELS = (1, 3)"),
        ("np.zeros(2)", "np.ones(2)"),
        ("value * LEVELS[0]", "value / LEVELS[0]"),
    ],
)
def test_a_change_of_the_metric_or_of_what_it_uses_is_another_metric(code, old, new):
    assert code(old, new) != code()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('return "a model"', 'return "another model"'),
        ("value * LEVELS[0]", "(value* LEVELS[0])  # the first"),
    ],
)
def test_the_rest_of_the_module_comments_and_the_form_do_not_count(code, old, new):
    assert code(old, new) == code()


def test_a_callable_without_source_counts_as_its_whole_module(code):
    assert code(name="bound") == code(name="bound")
    assert code('return "a model"', 'return "another model"', name="bound") != code(name="bound")


def test_the_loss_is_not_the_code_of_a_score(code):
    assert code(loss="module_of_metric:build") == code()
