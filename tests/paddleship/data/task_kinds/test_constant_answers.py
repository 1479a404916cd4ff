"""A score is compared with that of a constant answer on the same rows."""

import numpy as np
import pytest

from paddleship.data.task_kinds import registry

CLASSES = ("common", "rare", "other")


def found(decisions, labels, task="classification"):
    outputs = np.eye(3)[decisions] if task == "classification" else np.asarray(decisions, float)
    return [(one.kind, one.severity) for one in registry.get(task).findings(outputs, np.asarray(labels), CLASSES)]


def test_a_model_that_always_answers_the_largest_class_is_a_warning():
    labels = np.array([0] * 396 + [1] * 4)
    assert found(np.zeros(400, int), labels) == [("no-skill", "warning"), ("unchosen-class", "warning")]
    assert found(np.where(np.arange(400) == 399, 1, 0), labels) == [("no-skill", "warning")]


def test_a_model_that_is_better_than_the_largest_class_is_no_finding():
    labels = np.arange(40) % 3
    assert found(labels, labels) == []
    assert found(np.where(np.arange(40) < 8, 0, labels), labels) == []


def test_a_class_with_many_rows_that_is_never_chosen_is_a_warning_and_one_with_few_a_note():
    labels = np.array([0] * 50 + [1] * 50 + [2] * 4)
    assert found(np.minimum(labels, 1), labels) == [("unchosen-class", "warning")]
    assert found(np.minimum(labels[:102], 1), labels[:102]) == [("unchosen-class", "note")]


@pytest.mark.parametrize("targets", [1, 2])
def test_a_regression_that_is_no_better_than_the_mean_is_a_warning(targets):
    random = np.random.default_rng(0)
    labels = random.normal(size=(200, targets))
    assert found(random.normal(size=(200, targets)), labels, "regression") == [("no-skill", "warning")]
    assert found(np.full((200, targets), labels.mean()), labels, "regression") == [("no-skill", "warning")]
    assert found(labels + 0.5 * random.normal(size=(200, targets)), labels, "regression") == []


def test_few_rows_that_show_some_gain_are_a_note():
    labels = np.arange(17) % 5 < 3
    outputs = np.where(np.arange(17) == 3, 1, labels.astype(int))
    outputs[[4, 8]] = 1
    assert found(outputs, labels.astype(int)) == [("no-skill", "note")]


def test_an_output_that_is_not_shaped_as_the_labels_is_not_judged():
    assert found(np.zeros((200, 7)), np.arange(200.0), "regression") == []
