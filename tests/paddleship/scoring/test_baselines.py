"""A trained model against a constant answer and a linear model of scikit-learn, on the same rows."""

import numpy as np
import pytest

from paddleship.data.dataset import Rows
from paddleship.data.task_kinds import registry
from paddleship.model.training import Split
from paddleship.scoring import baselines, linear_model
from paddleship.shipped.computing.preprocess import Preprocess
from paddleship.shipped.computing.preprocess.categories import Categories
from paddleship.shipped.computing.preprocess.characters import Characters
from paddleship.shipped.computing.preprocess.numbers import Numbers
from paddleship.shipped.computing.preprocess.registration import InputEncoder
from paddleship.shipped.computing.preprocess.tensors import Tensor
from paddleship.shipped.computing.spec import TensorSpec

SIZES = {"train": 400, "validation": 60, "test": 200}


class Picture(InputEncoder):
    """A kind that a linear model cannot read."""

    def encode(self, value):
        return np.zeros((2, 2), np.float32)


def numbers(name="x", size=2):
    return Numbers(column=name, spec=TensorSpec(name, "float32", ("batch", size)))


def parts(encoders, columns, labels):
    """Rows of all parts; `columns(random, count)` returns a part, and `labels(columns)` its labels."""
    random, rows, splits = np.random.default_rng(3), {}, {}
    for part, count in SIZES.items():
        made = columns(random, count)
        rows[part] = Rows(made, np.asarray(labels(made)), [str(index) for index in range(count)])
    fitted = [one.fit(rows["train"].columns[one.column]) for one in encoders]
    preprocess = Preprocess(fitted)
    for part, one in rows.items():
        splits[part] = Split(preprocess.encode(one.columns), one.labels)
    return preprocess, rows, splits


def compared(task, preprocess, rows, splits, outputs):
    return baselines.compare(registry.get(task), outputs, preprocess, rows, splits)


def right(splits, classes=2):
    return {part: np.eye(classes)[splits[part].labels] for part in ("validation", "test")}


def noise(splits, classes=2):
    return {part: np.random.default_rng(0).normal(size=(len(splits[part].labels), classes)) for part in ("validation", "test")}


def test_a_table_of_texts_categories_and_numbers_is_learned_from_each_of_them():
    text = Characters(column="text", spec=TensorSpec("ids", "int64", ("batch", "length")))
    colour = Categories(column="colour", spec=TensorSpec("colour", "int64", ("batch",)))

    def columns(random, count):
        return {
            "text": [random.choice(["a good film", "a bad film"]) for _ in range(count)],
            "colour": [random.choice(["red", "blue", "green"]) for _ in range(count)],
            "x": [random.normal(size=2) for _ in range(count)],
        }

    for label in (
        lambda made: ["good" in text for text in made["text"]],
        lambda made: [colour == "red" for colour in made["colour"]],
        lambda made: [value[0] > value[1] for value in made["x"]],
    ):
        preprocess, rows, splits = parts([text, colour, numbers()], columns, lambda made, label=label: np.array(label(made), int))
        found = compared("classification", preprocess, rows, splits, right(splits))
        assert found.metrics["linear_test_accuracy"] > 0.95
        assert 0.3 < found.metrics["baseline_test_accuracy"] < 0.75
        assert found.metrics["baseline_gain_low"] > 0.1
        assert found.findings == []


def test_a_model_that_is_worse_than_the_linear_one_is_a_warning_and_one_that_is_equal_is_not():
    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, sign)
    (warning,) = compared("classification", preprocess, rows, splits, noise(splits)).findings
    assert (warning.kind, warning.severity) == ("below-linear", "warning")
    assert "of the linear model" in warning.message
    fitted = linear_model.fit(registry.get("classification"), preprocess, rows, splits)
    same = compared("classification", preprocess, rows, splits, fitted.outputs)
    assert same.findings == []
    assert (same.metrics["linear_gain"], same.metrics["linear_gain_low"], same.metrics["linear_gain_high"]) == (0, 0, 0)


def sign(made):
    return [int(value.sum() > 0) for value in made["x"]]


@pytest.mark.parametrize("targets", [1, 3])
def test_a_regression_is_compared_with_the_mean_of_the_training_labels_and_a_ridge_regression(targets):
    def label(made):
        return np.array([[value[0] * (1 + index) + 5 for index in range(targets)] for value in made["x"]], np.float32)

    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, label)
    found = compared("regression", preprocess, rows, splits, {part: splits[part].labels for part in ("validation", "test")})
    assert found.metrics["baseline_test_r2"] == pytest.approx(0, abs=0.05)
    assert found.metrics["linear_test_r2"] > 0.99
    assert str(found).startswith(" (mean ")


def test_labels_of_a_multilabel_task_have_a_linear_model_each():
    def label(made):
        return np.array([[value[0] > 0, value[1] > 0, False] for value in made["x"]], int)

    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, label)
    found = compared("multilabel", preprocess, rows, splits, noise(splits, 3))
    assert found.metrics["linear_test_micro_f1"] > 0.95
    assert [one.kind for one in found.findings] == ["below-linear"]


def test_a_tagging_task_has_a_constant_answer_and_no_linear_model(capsys):
    labels = np.tile([0, 0, 1], (200, 1))
    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, sign)
    splits = {part: Split(splits[part].examples, np.tile([0, 0, 1], (count, 1))) for part, count in SIZES.items()}
    outputs = {part: np.eye(2)[splits[part].labels] for part in ("validation", "test")}
    found = compared("tagging", preprocess, rows, splits, outputs)
    assert found.metrics["baseline_test_tag_accuracy"] == pytest.approx((labels == 0).mean())
    assert "linear_test_tag_accuracy" not in found.metrics
    assert "there is no linear model of such labels of a tagging task" in capsys.readouterr().out


def test_the_constant_answer_is_chosen_by_the_training_labels_and_not_by_the_rows_that_it_is_scored_on():
    training, test = np.array([0] * 60 + [1] * 40), np.array([0] * 20 + [1] * 80)
    constant = registry.get("classification").constant(training, np.zeros((100, 2)), test)
    assert registry.get("classification").score.of(constant.outputs, test) == 0.2


def test_an_input_that_a_linear_model_cannot_read_is_left_out_and_named(capsys):
    picture = Picture(column="picture", spec=TensorSpec("picture", "float32", ("batch", 2, 2)))
    preprocess, rows, splits = parts(
        [numbers(), picture], lambda random, count: {"x": [*random.normal(size=(count, 2))], "picture": [0] * count}, sign
    )
    found = compared("classification", preprocess, rows, splits, right(splits))
    assert found.metrics["linear_test_accuracy"] > 0.95
    assert found.facts["baselines"]["linear model"]["note"] == "without the inputs picture"
    only, rows, splits = parts([picture], lambda _, count: {"picture": [0] * count}, lambda made: np.arange(len(made["picture"])) % 2)
    found = compared("classification", only, rows, splits, right(splits))
    assert found.facts["baseline_notes"] == ["there is no linear model of such inputs"]
    assert "compared with no linear model" in capsys.readouterr().out


def test_a_linear_model_that_would_take_long_is_fitted_on_fewer_rows_and_says_so(monkeypatch):
    monkeypatch.setattr(linear_model, "_MOST", 200)
    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, sign)
    found = compared("classification", preprocess, rows, splits, right(splits))
    assert found.facts["baselines"]["linear model"]["note"] == "fitted on 100 of 400 training rows"
    assert found.metrics["linear_test_accuracy"] > 0.9


def test_the_weights_of_a_linear_model_are_bounded_for_many_classes(monkeypatch):
    seen = {}

    class Recorded(linear_model.Features):
        def __init__(self, encoders, *, buckets):
            seen["buckets"] = buckets
            super().__init__(encoders, buckets=buckets)

    monkeypatch.setattr(linear_model, "Features", Recorded)
    text = Characters(column="text", spec=TensorSpec("ids", "int64", ("batch", "length")))
    preprocess, rows, splits = parts(
        [text], lambda _, count: {"text": [str(index) for index in range(count)]}, lambda made: np.arange(len(made["text"])) % 100
    )
    compared("classification", preprocess, rows, splits, right(splits, 100))
    assert seen["buckets"] * 100 <= 2**21


def test_a_linear_model_that_fails_is_one_line_and_no_error(monkeypatch, capsys):
    def fail(*_):
        raise MemoryError("too large")

    monkeypatch.setattr(linear_model, "_fit", fail)
    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, sign)
    found = compared("classification", preprocess, rows, splits, right(splits))
    assert [row.title for row in found.rows] == ["largest class"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("the linear model failed (MemoryError: too large at ")


def test_outputs_that_do_not_fit_the_labels_are_compared_with_nothing():
    preprocess, rows, splits = parts([numbers()], lambda random, count: {"x": [*random.normal(size=(count, 2))]}, sign)
    outputs = {part: np.zeros((SIZES[part], 1)) for part in ("validation", "test")}
    assert compared("classification", preprocess, rows, splits, outputs).rows == ()


@pytest.mark.parametrize(
    ("dtype", "shape", "read"),
    [("float32", (4,), True), ("int64", (), True), ("float32", ("length",), False), ("float32", (65, 64), False), ("bool", (3,), True)],
)
def test_tensors_are_read_if_each_row_has_the_same_few_numbers(dtype, shape, read):
    from paddleship.scoring import features

    assert features.readable(Tensor(column="x", spec=TensorSpec("x", dtype, ("batch", *shape)))) == read
