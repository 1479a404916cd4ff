"""The rows that are shown are those that changed and the worst one, as a client would send them."""

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.proof import row_examples
from tests.paddleship.proof.test_parity import LABELS, answers, changed, evidence

ROWS = Rows(
    {"text": [f"row {number} " + "x" * (number == 7) * 500 for number in range(300)]}, LABELS, [str(number) for number in range(300)]
)
CLASSES = ["红", "green", "blue"]


def flip(*numbers):
    """The answers in which these rows have their first and second score exchanged."""

    def change(case, array):
        for number in numbers:
            for index in np.flatnonzero(case.inputs["x"][:, 0] == number):
                array[index] = np.roll(array[index], 1)
        return array

    return changed(change)


def test_rows_whose_decision_changed_are_shown_with_both_and_the_label():
    found = row_examples.changed_decisions(evidence(), flip(3, 7), ROWS, CLASSES)
    assert [example["row"]["text"][:6] for example in found] == ["row 3 ", "row 7 "]
    assert found[0] | {"row": ""} == {"row": "", "label": "红", "eager": "红", "candidate": "green"}
    assert len(found[1]["row"]["text"]) < 130
    assert row_examples.changed_decisions(evidence(), answers(), ROWS, CLASSES) == []
    assert len(row_examples.changed_decisions(evidence(), flip(*range(50)), ROWS, CLASSES)) == 5


def test_the_worst_row_is_the_one_with_the_largest_error():
    found = row_examples.worst(evidence(), flip(250), ROWS)
    assert found["row"]["text"] == "row 250 "
    assert (found["output"], found["case"]) == ("logits", "rows 0 to 299")
    assert found["error"] > 1000
    assert row_examples.worst(evidence(), answers(), ROWS)["error"] <= 1


def test_without_a_task_or_labels_nothing_is_made_up():
    assert row_examples.changed_decisions(evidence(task=None), flip(3), ROWS, CLASSES) == []
    unlabelled = Rows(ROWS.columns, np.zeros(0), ROWS.keys)
    assert row_examples.changed_decisions(evidence(), flip(3), unlabelled, CLASSES)[0]["label"] == ""
