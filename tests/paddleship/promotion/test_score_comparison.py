"""Two models on the same rows: score, paired difference, decisions that changed."""

from dataclasses import replace

import numpy as np
import pytest

from paddleship.config.sections.promote import Promote
from paddleship.data.dataset import Rows
from paddleship.promotion import score_comparison

RANDOM = np.random.default_rng(0)
COUNT = 400
LABELS = RANDOM.integers(0, 2, COUNT)
CLASSES = ("no", "yes")


def rows(labels=LABELS):
    return Rows(
        {"text": [f"row {number} " + "x" * 200 for number in range(len(labels))]}, np.asarray(labels), [str(n) for n in range(len(labels))]
    )


def answers(decisions, *, named=False):
    made = []
    for decided in decisions:
        scores = np.eye(2, dtype=np.float32)[int(decided)][None]
        made.append({"scores": scores, **({"label": np.array([CLASSES[int(decided)]], object)} if named else {})})
    return made


def wrong(count, labels=LABELS):
    return np.where(np.arange(len(labels)) < count, 1 - labels, labels)


def compared(before, after, *, named=False):
    return score_comparison.compare(
        rows(), answers(before, named=named), answers(after, named=named), task="classification", classes=CLASSES
    )


@pytest.mark.parametrize("named", [False, True])
def test_a_worse_challenger_shows_its_loss_with_an_interval_and_the_rows_that_it_lost(named):
    found = compared(wrong(20), wrong(60), named=named)
    assert (found.champion, found.challenger) == (0.95, 0.85)
    assert found.drop.value == pytest.approx(0.1)
    assert 0.05 < found.drop.low < found.drop.value < found.drop.high < 0.15
    assert found.scores().startswith("accuracy 0.8500 against 0.9500 on 400 rows (-0.1000, 95% interval -0.1")
    assert found.flips == 40
    assert found.flip_rate.low < 0.1 < found.flip_rate.high
    assert len(found.examples) == 10
    assert found.examples[0]["row"]["text"].startswith("row 20 x")
    assert found.examples[0]["row"]["text"].endswith(" …")
    shown = found.examples[0]
    assert shown["champion"] == shown["label"] != shown["challenger"]


def test_a_challenger_that_is_right_on_the_same_rows_has_a_difference_of_zero():
    found = compared(wrong(20), wrong(20), named=True)
    assert found.scores() == "accuracy 0.9500 against 0.9500 on 400 rows (+0.0000, 95% interval +0.0000 to +0.0000)"


def test_a_champion_whose_classes_have_other_names_has_no_score_and_a_gate_on_it_refuses():
    renamed = answers(wrong(0), named=True)
    for answer in renamed:
        answer["label"] = np.array([f"is {answer['label'][0]}"], object)
    found = score_comparison.compare(rows(), renamed, answers(wrong(200), named=True), task="classification", classes=CLASSES)
    assert (found.champion, found.drop) == (None, None)
    checks = {check.name: check.passed for check in score_comparison.checks(found, Promote(max_metric_drop=0.02))}
    assert not checks["champion_metric_drop_high"]


def test_the_difference_is_paired_so_that_equal_models_lose_nothing():
    found = compared(wrong(100), wrong(100))
    assert (found.drop.value, found.drop.low, found.drop.high) == (0, 0, 0)
    assert found.flips == 0
    assert found.examples == []


def test_examples_begin_with_what_the_champion_knew():
    labels = wrong(0)
    before, after = labels.copy(), labels.copy()
    before[3], after[9] = 1 - before[3], 1 - after[9]
    assert [one["row"]["text"][:6].strip() for one in compared(before, after).examples] == ["row 9", "row 3"]


def test_examples_say_how_large_a_picture_is_and_never_print_it():
    photos = replace(rows(), columns={"photo": [bytes(5000)] * len(LABELS)})
    found = score_comparison.compare(photos, answers(wrong(1)), answers(wrong(0)), task="classification", classes=CLASSES)
    assert found.examples[0]["row"] == {"photo": "5,000 bytes"}


def test_a_class_that_has_another_place_now_is_known_by_its_name():
    swapped = [{"scores": one["scores"][:, ::-1], "label": one["label"]} for one in answers(LABELS, named=True)]
    found = score_comparison.compare(rows(), swapped, answers(LABELS, named=True), task="classification", classes=CLASSES)
    assert (found.champion, found.challenger, found.flips) == (1, 1, 0)


def test_a_regression_is_compared_by_its_score_and_shows_the_largest_differences():
    labels = RANDOM.normal(size=200).astype(np.float32)
    before = [{"y": np.array([[value]], np.float32)} for value in labels]
    after = [{"y": np.array([[value + (5 if number == 7 else 0)]], np.float32)} for number, value in enumerate(labels)]
    found = score_comparison.compare(rows(labels), before, after, task="regression", classes=())
    assert found.champion == 1
    assert 0 < found.drop.value < 1
    assert found.flips is None
    assert [one["row"]["text"][:5] for one in found.examples] == ["row 7"]
    assert found.examples[0]["champion"] == str(float(f"{labels[7]:.5g}")), "five digits"


def test_a_score_that_cannot_be_made_is_no_score_and_its_gate_refuses():
    sequences = [{"scores": np.zeros((1, 3, 2), np.float32)} for _ in LABELS]
    found = score_comparison.compare(rows(), sequences, sequences, task="classification", classes=CLASSES)
    assert found.drop is None
    assert not score_comparison.checks(found, Promote())[0].passed
    assert score_comparison.checks(found, Promote(max_metric_drop=None)) == []


def test_labels_for_every_place_of_a_sequence_count_by_row():
    labels = np.zeros((4, 3), int)
    good = [{"scores": np.eye(2, dtype=np.float32)[[0, 0, 0]][None]} for _ in labels]
    poor = [{"scores": np.eye(2, dtype=np.float32)[[0, 1, 0]][None]} for _ in labels]
    found = score_comparison.compare(rows(labels), good, poor, task="classification", classes=())
    assert found.challenger == pytest.approx(2 / 3)
    assert found.flips == 4


@pytest.mark.parametrize(("task", "flips"), [("classification", 40), ("regression", None)])
def test_rows_without_labels_have_no_score_and_the_gate_on_it_says_what_to_set(task, flips):
    unlabelled = replace(rows(), labels=np.zeros(0))
    found = score_comparison.compare(unlabelled, answers(wrong(20)), answers(wrong(60)), task=task, classes=CLASSES)
    assert (found.flips, found.drop, found.champion) == (flips, None, None)
    assert [one["label"] for one in found.examples] == ["none"] * 10
    assert found.scores() == "the scores are unknown, because the rows have no labels"
    (check,) = score_comparison.checks(found, Promote())
    assert not check.passed
    assert "set promote.max_metric_drop: null, and a promote.max_flip_rate" in check.advice
