"""The scores of each class in the report of train, in a file, and as a picture."""

import json

import numpy as np
import pytest

from paddleship.data.task_kinds import class_tables, registry
from paddleship.data.task_kinds.positions import PADDING
from paddleship.model.training import Evaluation, Split
from paddleship.scoring import scored
from paddleship.shipped.computing.preprocess import Preprocess

CLASSES = ["red", "青", "blue"]
LABELS = np.array([0] * 6 + [1] * 3 + [2])
DECIDED = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 0])


def test_each_class_has_precision_recall_f1_and_support():
    table = class_tables.of_classes(DECIDED, LABELS, 3, CLASSES)
    red, green, blue = table.rows
    assert (red.precision, red.recall, red.f1) == pytest.approx((4 / 6, 4 / 6, 4 / 6), abs=1e-6)
    assert (green.precision, green.recall, green.f1) == pytest.approx((2 / 4, 2 / 3, 4 / 7), abs=1e-6)
    assert (blue.precision, blue.recall, blue.f1, blue.support, blue.chosen) == (None, 0, 0, 1, 0)
    assert table.macro_f1 == pytest.approx((4 / 6 + 4 / 7) / 3, abs=1e-6)
    assert table.matrix().tolist() == [[4, 2, 0], [1, 2, 0], [1, 0, 0]]
    assert table.confused(1) == [("red", "青", 2)]


def test_macro_f1_is_that_of_scikit_learn():
    from sklearn.metrics import f1_score

    random = np.random.default_rng(0)
    labels, decided = random.integers(0, 7, (2, 300))
    assert class_tables.of_classes(decided, labels, 9, ()).macro_f1 == pytest.approx(f1_score(labels, decided, average="macro"), abs=1e-5)


def test_labels_of_a_row_are_counted_for_each_class():
    wanted = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    outputs = np.array([[1.0, -1, -1], [1, 2, -1], [-1, -1, -1]])
    table = registry.get("multilabel").per_class(outputs, wanted, CLASSES)
    assert [(row.precision, row.recall, row.f1, row.support) for row in table.rows] == [(1, 1, 1, 2), (0, 0, 0, 1), (None, None, None, 0)]
    assert table.macro_f1 == 0.5
    assert table.pairs == {}


def test_tags_are_counted_by_position_and_padding_is_none():
    labels = np.array([[0, 1, 1], [0, PADDING, PADDING]])
    table = registry.get("tagging").per_class(np.eye(3)[[[0, 1, 0], [0, 2, 2]]], labels, CLASSES)
    assert table.matrix().tolist() == [[2, 0, 0], [1, 1, 0], [0, 0, 0]]


def judged(tmp_path, task, labels, outputs, classes):
    splits = {part: Split([{}] * len(labels), labels) for part in ("train", "validation", "test")}
    evaluations = {part: Evaluation(0.0, 0.0, outputs) for part in ("validation", "test")}
    return scored.judge(
        registry.get(task), evaluations, preprocess=Preprocess([]), rows={}, splits=splits, classes=classes, reports=tmp_path
    )


def test_the_report_has_the_table_and_a_picture_with_names_in_any_script(tmp_path):
    found = judged(tmp_path, "classification", LABELS, np.eye(3)[DECIDED], CLASSES)
    assert found.metrics["test_macro_f1"] == pytest.approx((4 / 6 + 4 / 7) / 3, abs=1e-6)
    assert [row["name"] for row in found.facts["classes"]] == CLASSES
    assert found.facts["confused"][0] == ["red", "青", 2]
    assert found.pictures == ["train/classes/confusion.png"]
    assert (tmp_path / found.pictures[0]).stat().st_size > 5_000
    stored = json.loads((tmp_path / "train/classes/classes.json").read_text(encoding="utf-8"))
    assert len(stored["confused"]) == 3


@pytest.mark.parametrize(("count", "drawn"), [(30, "matrix"), (31, "pairs")])
def test_of_many_classes_the_most_frequent_confusions_are_drawn(tmp_path, monkeypatch, count, drawn):
    calls = []
    monkeypatch.setattr(scored.charts, "matrix", lambda *_: calls.append("matrix"))
    monkeypatch.setattr(scored.charts, "pairs", lambda *_: calls.append("pairs"))
    labels = np.arange(200) % count
    judged(tmp_path, "classification", labels, np.eye(count)[(labels + (labels == 3)) % count], ())
    assert calls == [drawn]


def test_the_picture_of_many_classes_is_drawn(tmp_path):
    labels = np.arange(200) % 40
    found = judged(tmp_path, "classification", labels, np.eye(40)[(labels + (labels % 3 == 1)) % 40], ())
    assert (tmp_path / found.pictures[0]).stat().st_size > 5_000


def test_a_regression_has_an_empty_table_and_no_picture(tmp_path):
    values = np.linspace(0, 1, 20, dtype=np.float32)[:, None]
    found = judged(tmp_path, "regression", values, values, ())
    assert (found.pictures, "test_macro_f1" in found.metrics) == ([], False)
    assert json.loads((tmp_path / "train/classes/classes.json").read_text()) == {}


def test_noise_on_one_percent_of_positives_is_a_warning_with_the_share_of_the_largest_class(tmp_path):
    """It has an accuracy of 0.98, so that it passes a min_score of 0.95."""
    random = np.random.default_rng(0)
    labels = (np.arange(1000) % 100 == 0).astype(int)
    noise = (random.random(1000) < 0.01).astype(int)
    assert (noise == labels).mean() > 0.97
    found = judged(tmp_path, "classification", labels, np.eye(2)[noise], ["no", "yes"])
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("no-skill", "warning")
    assert "always answering 'no' gives 0.9900" in finding.message
    assert found.headline.endswith(" (largest class 0.9900)")
    never = judged(tmp_path, "classification", labels, np.eye(2)[labels * 0], ["no", "yes"]).findings
    assert [one.kind for one in never] == ["no-skill", "unchosen-class"]
    assert "'yes' (10 rows, 1.0% of the labels); the largest class has 99.0%" in never[1].message
