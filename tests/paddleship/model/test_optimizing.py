"""The optimizer of the loop: which step it makes when, and that the default is AdamW as it was."""

import numpy as np
import paddle
import pytest

from paddleship.config.sections.train import Train
from paddleship.model import optimizing
from paddleship.model.optimizing import Optimizer
from paddleship.model.training import Split, fit, make_task
from paddleship.shipped.computing import arguments
from paddleship.shipped.computing.preprocess import Preprocess

X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)


def layer():
    paddle.seed(0)
    return paddle.nn.Linear(2, 1)


def loss(model, rows):
    return (model(paddle.to_tensor(rows)) ** 2).mean()


def trained(settings, batches):
    model = layer()
    optimizer = Optimizer(model, settings, len(batches))
    for rows in batches:
        optimizer.add(loss(model, rows))
    optimizer.flush()
    return model.weight.numpy()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adamw", lambda parameters: paddle.optimizer.AdamW(0.1, parameters=parameters, weight_decay=0.01)),
        ("adam", lambda parameters: paddle.optimizer.Adam(0.1, parameters=parameters, weight_decay=0.01)),
        ("sgd", lambda parameters: paddle.optimizer.SGD(0.1, parameters=parameters, weight_decay=0.01)),
        ("momentum", lambda parameters: paddle.optimizer.Momentum(0.1, 0.9, parameters=parameters, weight_decay=0.01)),
    ],
)
def test_each_optimizer_steps_as_paddles_does_to_the_bit(name, make):
    model = layer()
    plain = make(model.parameters())
    for rows in (X[:4], X[4:8], X[8:]):
        loss(model, rows).backward()
        plain.step()
        plain.clear_grad()
    ours = trained(Train(optimizer=name, learning_rate=0.1, weight_decay=0.01), [X[:4], X[4:8], X[8:]])
    assert np.array_equal(ours, model.weight.numpy())


def test_accumulated_batches_make_the_step_of_one_large_batch_and_the_rest_of_an_epoch_makes_one_too():
    settings = Train(optimizer="sgd", learning_rate=0.1, accumulate=2)
    together = trained(settings.model_copy(update={"accumulate": 1}), [X[:8]])
    assert np.allclose(trained(settings, [X[:4], X[4:8]]), together, atol=1e-6)
    assert not np.allclose(trained(settings, [X[:4], X[4:8], X[8:]]), together, atol=1e-6)


def test_gradients_are_clipped_by_their_common_norm():
    before = layer().weight.numpy()
    moved = trained(Train(optimizer="sgd", learning_rate=1.0, clip_norm=0.001), [X]) - before
    assert 0 < np.linalg.norm(moved) <= 0.001 + 1e-6


def rates(settings, steps):
    made = optimizing.schedule(settings, steps)
    values = []
    for _ in range(settings.epochs * steps):
        values.append(made if isinstance(made, float) else made())
        if not isinstance(made, float):
            made.step()
    return values


def test_step_sizes_stay_rise_and_fall_as_asked():
    assert rates(Train(epochs=2, learning_rate=0.5), 3) == [0.5] * 6
    linear = rates(Train(epochs=4, learning_rate=0.4, schedule="linear"), 1)
    assert linear == pytest.approx([0.4, 0.3, 0.2, 0.1])
    cosine = rates(Train(epochs=10, learning_rate=0.4, schedule="cosine"), 2)
    assert cosine[0] == pytest.approx(0.4)
    assert cosine[10] == pytest.approx(0.2)
    assert cosine == sorted(cosine, reverse=True)
    warm = rates(Train(epochs=4, learning_rate=0.4, schedule="linear", warmup_epochs=2), 2)
    assert warm[:5] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert warm[-1] == pytest.approx(0.1)
    assert rates(Train(epochs=2, learning_rate=0.4, warmup_epochs=1), 2)[2:] == pytest.approx([0.4, 0.4])


def test_a_step_size_falls_by_a_factor_every_few_epochs():
    settings = Train(epochs=6, learning_rate=0.4, schedule="step", schedule_every=2, schedule_factor=0.5)
    assert rates(settings, 2) == pytest.approx([0.4] * 4 + [0.2] * 4 + [0.1] * 4)
    warm = rates(settings.model_copy(update={"warmup_epochs": 1}), 2)
    assert warm[:6] == pytest.approx([0, 0.2, 0.4, 0.4, 0.4, 0.4])
    assert warm[6] == pytest.approx(0.2)


@pytest.mark.parametrize(("warmup", "first"), [(0, 0.4), (0.5, 0.2)])
def test_a_step_size_falls_where_evaluations_are_no_better(warmup, first):
    settings = Train(optimizer="sgd", epochs=9, learning_rate=0.4, schedule="plateau", schedule_every=2, warmup_epochs=warmup)
    optimizer, seen = Optimizer(model := layer(), settings, 4), []
    for better in (True, False, True, False, False, False, False, False):
        optimizer.add(loss(model, X))
        optimizer.evaluated(better=better)
        optimizer.add(loss(model, X))
        seen.append(optimizer._optimizer.get_lr())
    assert seen == pytest.approx([0.4, 0.4, 0.4, 0.4, 0.04, 0.04, 0.004, 0.004])
    assert rates(settings, 4)[1] == pytest.approx(first)


@pytest.mark.parametrize(("best", "kept"), [("loss", 0), ("score", 2)])
def test_the_epoch_that_is_kept_is_the_best_by_loss_or_by_score(monkeypatch, best, kept):
    class Scores:
        losses, scores, epoch = (1.0, 2.0, 3.0), (0.1, 0.2, 0.3), -1

    def evaluate(*_, **__):
        Scores.epoch += 1
        return type("Evaluated", (), {"loss": Scores.losses[Scores.epoch], "score": Scores.scores[Scores.epoch]})

    monkeypatch.setattr("paddleship.model.training.evaluate", evaluate)
    split = Split([{"input": row} for row in X], np.zeros((12, 1), np.float32))
    model = layer()
    form = arguments.form(type(model).forward, ["input"], [])
    preprocess = type("Stacked", (Preprocess,), {"collate": lambda _, rows: {"input": np.stack([row["input"] for row in rows])}})([])
    settings = Train(epochs=3, best=best, patience=3)
    history = fit(
        model, split, split, preprocess, settings,
        form=form, task=make_task("regression", settings), seed=0, on_epoch=lambda *_: None,
    )  # fmt: skip
    assert history.best == kept


def test_a_warm_up_as_long_as_the_training_is_refused():
    with pytest.raises(ValueError, match="warmup_epochs must be below epochs"):
        Train(epochs=2, warmup_epochs=2)
