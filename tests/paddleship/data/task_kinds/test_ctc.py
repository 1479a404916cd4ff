"""Text that is read step by step: decisions, labels, loss and scores."""

import numpy as np
import paddle
import pytest

from paddleship.config.sections.data import Data
from paddleship.data import dataset
from paddleship.data.row_faults import RowFault
from paddleship.data.task_kinds import registry
from paddleship.data.task_kinds.ctc import TextLabels, edits
from paddleship.data.task_kinds.positions import PADDING
from paddleship.data.task_kinds.registration import UntrainedOutput
from paddleship.errors import DataError, ModelError

KIND = registry.get("ctc")
CLASSES = ["a", "b", "好"]


def scores(*rows):
    """Outputs whose best score of each step is the given one; rows are padded with zeros."""
    outputs = np.zeros((len(rows), max(map(len, rows)), 4), np.float32)
    for index, row in enumerate(rows):
        outputs[index, np.arange(len(row)), row] = 1
    return outputs


def labels(*texts):
    reader = TextLabels("text", CLASSES)
    return KIND.stacked([reader.read(0, text) for text in texts])


@pytest.mark.parametrize(
    ("best", "text"),
    [([0, 1, 1, 0, 1, 2], "aab"), ([1, 1, 1], "a"), ([3, 0, 3], "好好"), ([0, 0], ""), ([2, 1, 2], "bab")],
)
def test_repeats_are_one_character_unless_a_blank_is_between_and_padding_reads_nothing(best, text):
    outputs = scores(best, [0] * 9)
    assert KIND.decision.answers(outputs, CLASSES) == [text, ""]


def test_a_server_names_a_text_only_for_an_output_with_a_score_for_the_blank_too():
    assert KIND.decision.scores(("batch", "steps", 4), 3)
    assert not KIND.decision.scores(("batch", "steps", 3), 3)
    assert not KIND.decision.scores(("batch", 4), 3)


def test_labels_are_the_scores_of_characters_padded_at_their_end():
    assert labels("ab", "好").tolist() == [[1, 2], [3, PADDING]]


@pytest.mark.parametrize(("value", "words"), [("abc", "with 'c', which is not one of data.classes"), (3, "ctc needs a text")])
def test_a_label_that_is_no_text_of_the_characters_is_refused(value, words):
    with pytest.raises(RowFault, match=words):
        TextLabels("text", CLASSES).read(7, value)


def test_texts_that_need_more_steps_than_the_model_gives_are_a_warning():
    outputs, wanted = scores([1, 0, 1], [1, 2, 0], [3, 0, 0]), labels("aa", "aab", "好好好")
    finding = KIND.findings(outputs, wanted, CLASSES)[0]
    assert finding.kind == "short-output"
    assert "2 of 3 test rows have texts that need up to 5 steps, and the model gives 3" in finding.message


def test_characters_must_be_single():
    with pytest.raises(DataError, match=r"data.classes holds 'ab', and ctc reads characters"):
        TextLabels("text", ["a", "ab"])


def test_characters_must_be_named():
    with pytest.raises(DataError, match="needs the characters that a text may have"):
        TextLabels("text", [])


@pytest.mark.parametrize(
    ("one", "other", "count"), [([], [], 0), ([1], [], 1), ([1, 2, 3], [1, 3], 1), ([1, 2], [2, 1], 2), ([5, 1, 2, 3], [1, 2, 4], 2)]
)
def test_edits_are_insertions_deletions_and_replacements(one, other, count):
    assert edits(one, other) == edits(other, one) == count


def test_the_score_counts_edits_and_rows_that_are_right_as_a_whole():
    outputs, wanted = scores([1, 0, 1, 2], [2, 0, 0, 0], [3]), labels("aab", "ab", "好")
    assert KIND.score.of(outputs, wanted) == pytest.approx(5 / 6)
    assert KIND.score.of_rows(KIND.score.rows(outputs, wanted), wanted) == pytest.approx(5 / 6)
    assert KIND.score.contributions(outputs, wanted).sum() == pytest.approx(5 / 6)
    assert KIND.further["exact_texts"](outputs, wanted, CLASSES) == pytest.approx(2 / 3)


def test_a_row_flips_if_its_text_changes_and_only_once():
    before, after = scores([1, 2, 3], [1, 0, 0]), scores([1, 1, 2], [0, 1, 0])
    assert KIND.flips(before, after).tolist() == [True, False]


def test_the_loss_ignores_padding_of_labels_and_is_least_for_the_right_text():
    def loss(best, texts):
        return float(KIND.loss(paddle.to_tensor(scores(*best) * 9), paddle.to_tensor(labels(*texts))))

    right = loss([[1, 0, 2], [3, 0, 0]], ["ab", "好"])
    assert right < 0.1 < loss([[1, 0, 2], [3, 0, 0]], ["ab", "a"])


def test_an_output_of_another_form_is_refused_with_the_form_that_is_needed():
    output = UntrainedOutput("scores", [8, 12, 3], 8, CLASSES, [], own_loss=False)
    with pytest.raises(ModelError, match=r"let forward return \[8, steps, 4\], a score for the blank and for each character"):
        KIND.check_output(output)


def test_a_model_that_reads_nothing_is_told_so():
    (finding,) = KIND.findings(scores([0, 0], [0, 0]), labels("ab", "a"), CLASSES)
    assert finding.kind == "no-skill"


def test_the_margin_is_that_of_the_step_that_is_decided_otherwise():
    eager, other = scores([1, 2])[0], scores([1, 3])[0]
    assert KIND.margin(eager, other) == 1
    assert KIND.margin(eager, eager) == 0


def test_an_empty_text_is_the_label_of_a_row_in_which_nothing_is_written():
    wanted = labels("ab", "")
    assert wanted.tolist() == [[1, 2], [PADDING, PADDING]]
    assert KIND.score.of(scores([1, 0, 2], [0, 0, 0]), wanted) == 1
    assert KIND.score.of(scores([1, 0, 2], [0, 3, 0]), wanted) == 0.5, "a character that is not there is an edit"
    assert KIND.further["exact_texts"](scores([1, 0, 2], [0, 3, 0]), wanted, CLASSES) == 0.5


@pytest.mark.parametrize("texts", [("ab", ""), ("", ""), ("", "b", "a")], ids=repr)
def test_the_loss_of_an_empty_text_is_that_of_the_blank_in_every_step(texts):
    random = np.random.default_rng(0).normal(size=(len(texts), 5, 4)).astype(np.float32)
    output = paddle.to_tensor(random, stop_gradient=False)
    loss = KIND.loss(output, paddle.to_tensor(labels(*texts)))
    shares = np.log(np.exp(random) / np.exp(random).sum(-1, keepdims=True))
    expected = []
    for row, text in enumerate(texts):
        one = paddle.to_tensor(random[row : row + 1])
        expected.append(KIND.loss(one, paddle.to_tensor(labels(text))).item() if text else -shares[row, :, 0].sum())
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-5)
    loss.backward()
    assert np.isfinite(output.grad.numpy()).all()
    assert (output.grad.numpy() != 0).any(axis=(1, 2)).all(), "each row teaches the model"


def test_rows_without_text_are_stored_and_read_and_missing_labels_are_dropped(tmp_path):
    data = Data(raw="raw", reader="m:read", inputs=["x"], label="text", task="ctc", classes=CLASSES, validation=0.2, test=0.2)
    rows = [{"x": float(number), "text": ("", "ab", None, " ")[number % 4]} for number in range(80)]
    splits, counts = dataset.clean(rows, data)
    assert counts.empty == {"text": 40}
    dataset.write(splits, {}, tmp_path)
    for part, one in splits.items():
        assert np.array_equal(dataset.read(tmp_path, part).labels, one.labels)
    empty = splits["train"].take([index for index, label in enumerate(splits["train"].labels) if (label == PADDING).all()])
    assert len(empty)
    dataset.write({"test": empty}, {}, tmp_path)
    assert (dataset.read(tmp_path, "test").labels == PADDING).all()
