"""Training: a loss that fails says whose it is; weights of classes; evaluations within an epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import paddle
import pytest

from paddleship.config.sections.train import Train
from paddleship.data.task_kinds import registry
from paddleship.data.task_kinds.positions import PADDING
from paddleship.errors import ModelError, ParamsError
from paddleship.model import training
from paddleship.model.training import Split, fit, make_task
from paddleship.shipped.computing import arguments
from paddleship.shipped.computing.preprocess import Preprocess


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


def task_of(name, weights, labels, classes=("a", "b", "c")):
    return make_task(name, Train(class_weights=weights), labels=labels, classes=classes)


OUTPUT = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
IDS = np.array([0, 0, 0, 1, 1, 2])


def value(task, output, labels):
    return float(task.loss({"y": paddle.to_tensor(output)}, paddle.to_tensor(labels)))


def cross_entropies(output, labels):
    shares = np.exp(output) / np.exp(output).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(shares, labels[..., None], -1)[..., 0])


def test_balanced_weights_let_each_class_count_alike():
    losses = cross_entropies(OUTPUT, IDS)
    wanted = np.mean([losses[:3].mean(), losses[3:5].mean(), losses[5]])
    assert value(task_of("classification", "balanced", IDS), OUTPUT, IDS) == pytest.approx(wanted, rel=1e-5)


def test_named_weights_multiply_the_loss_of_a_class_and_others_weigh_1():
    losses = cross_entropies(OUTPUT, IDS) * np.where(IDS == 1, 5, 1)
    assert value(task_of("classification", {"b": 5.0}, IDS), OUTPUT, IDS) == pytest.approx(losses.mean(), rel=1e-5)


def test_padding_has_no_weight_in_the_loss_of_tags():
    output, labels = OUTPUT.reshape(2, 3, 3), np.array([[0, 1, 2], [1, PADDING, PADDING]])
    losses = cross_entropies(output, np.maximum(labels, 0)) * np.where(labels == 1, 5, 1) * (labels != PADDING)
    assert value(task_of("tagging", {"b": 5.0}, labels), output, labels) == pytest.approx(losses.sum() / 4, rel=1e-5)
    balanced = registry.get("tagging").class_weights.balanced(labels, 4)
    assert balanced == pytest.approx([4 / 3, 2 / 3, 4 / 3, 1])


def test_a_label_of_few_rows_weighs_as_much_as_the_rows_without_it():
    labels = np.array([[1, 0, 0]] + [[0, 1, 0]] * 5)
    assert registry.get("multilabel").class_weights.balanced(labels, 3) == pytest.approx([5, 1 / 5, 1])
    chances = 1 / (1 + np.exp(-OUTPUT))
    wanted = -(labels * np.log(chances) * [5, 0.2, 1] + (1 - labels) * np.log(1 - chances)).mean()
    assert value(task_of("multilabel", "balanced", labels), OUTPUT, labels) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("name", ["classification", "tagging", "multilabel"])
def test_equal_weights_give_the_default_loss(name):
    labels = {"classification": IDS, "tagging": IDS.reshape(2, 3), "multilabel": np.eye(3, dtype=int)[IDS]}[name]
    output = OUTPUT.reshape(2, 3, 3) if name == "tagging" else OUTPUT
    plain = make_task(name, Train())
    assert value(task_of(name, dict.fromkeys("abc", 1.0), labels), output, labels) == pytest.approx(value(plain, output, labels), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "weights", "words"),
    [
        ("regression", "balanced", "train.class_weights is 'balanced', and a regression task weights no classes: set it to none"),
        ("classification", {"d": 2.0}, r"train.class_weights names 'd', which is not in data.classes \(it has a, b, c\): correct the name"),
    ],
)
def test_weights_that_the_task_does_not_have_are_refused(name, weights, words):
    with pytest.raises(ParamsError, match=words):
        task_of(name, weights, IDS)


def test_weights_beside_a_loss_of_ones_own_are_refused():
    with pytest.raises(ValueError, match="class_weights are for the default loss"):
        Train(loss="their:loss", class_weights="balanced")
    with pytest.raises(ValueError, match="greater than 0"):
        Train(class_weights={"a": 0})


ROWS = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
NAN = float("nan")


@dataclass(frozen=True)
class Scored(training.Task):
    """A task whose score is the next of those given."""

    scores: Iterator[float] = field(kw_only=True)

    @property
    def kind(self):
        kind = registry.get(self.name)
        return replace(kind, score=replace(kind.score, of=lambda *_: next(self.scores)))


def fitted(*, scores=None, **settings):
    """A linear model with dropout after `fit`, with its history and what was logged. `scores`: those of the evaluations, one by one."""
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Dropout(0.5), paddle.nn.Linear(2, 1))
    split = Split([{"input": row} for row in ROWS], (ROWS.sum(1, keepdims=True) * 3).astype(np.float32))
    stacked = type("Stacked", (Preprocess,), {"collate": lambda _, rows: {"input": np.stack([row["input"] for row in rows])}})([])
    chosen, logged = Train(learning_rate=0.05, batch_size=4, **settings), []
    task = make_task("regression", chosen)
    if scores is not None:
        task = Scored(task.name, task.loss, scores=iter(scores))
    history = fit(
        model, split, split, stacked, chosen, form=arguments.form(type(model).forward, ["input"], []), task=task, seed=0,
        on_epoch=lambda metrics, step: logged.append((step, metrics)),
    )  # fmt: skip
    return model, history, logged


def test_evaluations_within_an_epoch_are_rows_of_the_history_with_their_epoch():
    _, history, logged = fitted(epochs=2, evaluate_steps=2, patience=9)
    assert [row["epoch"] for row in history.evaluations] == [0.4, 0.8, 1, 1.4, 1.8, 2]
    assert [step for step, _ in logged] == list(range(6))
    assert history.epoch(-1) == 2


def test_an_evaluation_at_the_end_of_an_epoch_is_made_once():
    _, history, _ = fitted(epochs=2, evaluate_steps=5, patience=9)
    assert [row["epoch"] for row in history.evaluations] == [1, 2]


def test_steps_between_evaluations_are_those_of_the_optimizer():
    _, history, _ = fitted(epochs=1, evaluate_steps=1, accumulate=2, patience=9)
    assert [row["epoch"] for row in history.evaluations] == [0.4, 0.8, 1]


def test_an_evaluation_changes_nothing_in_the_training():
    """In evaluation mode, dropout would be off for the rest of the epoch."""
    _, once, _ = fitted(epochs=2)
    _, history, _ = fitted(epochs=2, evaluate_steps=1, patience=99)
    assert len(history.evaluations) == 10
    assert history.evaluations[-1]["validation_loss"] == once.evaluations[-1]["validation_loss"]
    assert "epoch" not in once.evaluations[0]


def test_patience_counts_evaluations(capsys):
    _, history, _ = fitted(epochs=50, evaluate_steps=1, patience=2, optimizer="sgd", schedule="step")
    assert history.waited == 2
    assert "for 2 evaluations; keeping the weights of epoch" in capsys.readouterr().out


def test_the_weights_of_the_best_evaluation_are_kept():
    model, history, _ = fitted(epochs=30, evaluate_steps=1, patience=3, optimizer="sgd")
    model.eval()
    with paddle.no_grad():
        loss = float(((model(paddle.to_tensor(ROWS)).numpy() - ROWS.sum(1, keepdims=True) * 3) ** 2).mean())
    assert loss == pytest.approx(min(row["validation_loss"] for row in history.evaluations), rel=1e-5)


@pytest.mark.parametrize(("scores", "best"), [([NAN, 0.5, 0.8, 0.7], 2), ([NAN, -0.5, NAN, -0.7], 1), ([0.1, NAN, 0.2, 0.1], 2)])
def test_an_evaluation_without_a_score_is_never_the_best(scores, best):
    _, history, _ = fitted(scores=scores, best="score", epochs=4, patience=9)
    assert history.best == best
    assert history.score == scores[best]


@pytest.mark.parametrize(("epochs", "count"), [(2, 2), (9, 4)])
def test_scores_that_are_all_nan_are_an_error(epochs, count):
    with pytest.raises(ModelError, match=rf"the validation score is not finite in any of {count} evaluations .*set train.best: loss"):
        fitted(scores=[NAN] * 9, best="score", epochs=epochs, patience=3)
    assert fitted(scores=[NAN] * 9, epochs=2)[1].best == 1
