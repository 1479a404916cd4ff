"""Training: a loss that fails says whose it is."""

import paddle
import pytest

from paddleship.config.sections.train import Train
from paddleship.errors import ModelError
from paddleship.model import training


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("math:floor", r"train.loss 'math:floor' failed on outputs \w+ \(the first: \[2, 1\]\) and labels \[3\] .*: fix that function"),
        (None, "the regression loss failed on .*: correct data.task, data.label or the model's first output"),
    ],
)
def test_a_loss_that_fails_says_what_to_mend(chosen, words):
    task = training.make_task("regression", Train(loss=chosen))
    with pytest.raises(ModelError, match=words):
        training._loss(task, {"y": paddle.ones([2, 1])}, paddle.ones([3]))


@pytest.mark.parametrize(("loss", "gave"), [(lambda *_: 0.5, "float"), (lambda outputs, _: outputs["y"], r"a tensor of shape \[2, 1\]")])
def test_a_loss_that_is_no_number_says_what_to_return(loss, gave):
    task = training.Task("regression", loss, "their:loss")
    with pytest.raises(ModelError, match=f"train.loss 'their:loss' returned {gave}, .*: return the mean as a tensor"):
        training._loss(task, {"y": paddle.ones([2, 1])}, paddle.ones([2]))
