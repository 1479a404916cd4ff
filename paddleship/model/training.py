"""Eager training: seeded, with early stopping by the validation loss or score; the best weights are kept.

Not supported: resuming, mixed precision, several devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddleship.config.sections.train import Train
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.optimizing import Optimizer
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Example, Preprocess
from paddleship.shipped.computing.references import explain, resolve
from paddleship.system.progress import Progress, clock

OnEpoch = Callable[[Mapping[str, float], int], None]
_WINDOW = 20  # batches that are sorted by length together, to reduce padding


@dataclass(frozen=True)
class Split:
    """Encoded examples and their labels, which are empty if rows have none."""

    examples: Sequence[Example]
    labels: np.ndarray[Any, Any]

    @property
    def labelled(self) -> bool:
        return len(self.labels) > 0


@dataclass(frozen=True)
class Evaluation:
    """Mean loss and score over all rows of a part, and the first output for each of them, in their order.

    Loss and score are NaN if the rows have no labels.
    """

    loss: float
    score: float
    outputs: np.ndarray[Any, Any]


@dataclass
class History:
    """Metrics of each epoch as flat dicts; `best` is the epoch (from 0) whose weights the model has."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int = 0
    diverged: str | None = None

    @property
    def waited(self) -> int:
        """Epochs since the best one."""
        return len(self.epochs) - 1 - self.best

    @property
    def score(self) -> float:
        return self.epochs[self.best]["validation_score"] if self.epochs else math.nan


@dataclass(frozen=True)
class Task:
    """The training task: the loss to minimise, and its kind, which has the score to report."""

    name: str
    loss: Callable[[dict[str, Any], Any], Any]
    chosen: str | None = None  # train.loss, if it is set

    @property
    def kind(self) -> TaskKind:
        return task_kinds.get(self.name)


def make_task(name: str, settings: Train) -> Task:
    """The task with its default loss, or with the loss that train.loss names."""
    if settings.loss:
        return Task(name, resolve(settings.loss, key="train.loss", error=ModelError), settings.loss)
    loss = task_kinds.get(name).loss
    return Task(name, lambda outputs, labels: loss(_first(outputs), labels))


def fit(
    layer: Any,
    train: Split,
    validation: Split,
    preprocess: Preprocess,
    settings: Train,
    *,
    form: ArgumentForm,
    task: Task,
    seed: int,
    on_epoch: OnEpoch,
) -> History:
    """Train `layer` in place; afterwards it has the weights of its best epoch.

    `form` maps the inputs of a batch to the arguments of forward. Stops after `patience` epochs without a better one by `best`, and
    immediately, with `diverged` set, if a loss is not finite.
    """
    optimizer = Optimizer(layer, settings, math.ceil(len(train.labels) / settings.batch_size))
    random = np.random.default_rng(seed)
    history, best, best_weights = History(), math.inf, None
    started = time.monotonic()
    for epoch in range(settings.epochs):
        epoch_start = time.monotonic()
        loss = _train_epoch(
            layer, optimizer, train, preprocess, settings, form=form, task=task, random=random, label=f"epoch {epoch + 1}/{settings.epochs}"
        )
        if not math.isfinite(loss):
            history.diverged = f"the training loss is {loss} in epoch {epoch + 1}"
            return history
        evaluated = evaluate(layer, validation, preprocess, form=form, task=task, batch_size=settings.batch_size)
        validation_loss, score = evaluated.loss, evaluated.score
        if not math.isfinite(validation_loss):
            history.diverged = f"the validation loss is {validation_loss} in epoch {epoch + 1}"
            return history
        seconds = time.monotonic() - epoch_start
        metrics = {
            "train_loss": loss,
            "validation_loss": validation_loss,
            "validation_score": score,
            "rows_per_s": len(train.labels) / seconds,
            "epoch_seconds": seconds,
        }
        history.epochs.append(metrics)
        on_epoch(metrics, epoch)
        rest = clock((time.monotonic() - started) / (epoch + 1) * (settings.epochs - epoch - 1))
        figures = f"loss {loss:.4f}  validation {validation_loss:.4f}  {task.kind.score.name} {score:.4f}"
        print(f"epoch {epoch + 1}/{settings.epochs}  {figures}  {metrics['rows_per_s']:,.0f} rows/s  eta {rest}")
        reached = validation_loss if settings.best == "loss" else -score
        if reached < best or best_weights is None:
            best, history.best = reached, epoch
            best_weights = {name: tensor.numpy().copy() for name, tensor in layer.state_dict().items()}
        elif history.waited >= settings.patience and epoch + 1 < settings.epochs:
            print(
                f"stopped early: no {'lower' if settings.best == 'loss' else 'higher'} validation {settings.best} for {settings.patience} "
                f"epochs; keeping the weights of epoch {history.best + 1}"
            )
            break
    layer.set_state_dict(best_weights)
    return history


def evaluate(layer: Any, split: Split, preprocess: Preprocess, *, form: ArgumentForm, task: Task, batch_size: int) -> Evaluation:
    """Ask the model all rows in evaluation mode."""
    import paddle

    layer.eval()
    losses, outputs, labels = [], [], []
    with paddle.no_grad():
        for indices in _batches(split.examples, batch_size, None):
            result, target = _forward(layer, split, indices, preprocess, form, task)
            outputs.append(_first(result).numpy())
            if target is not None:
                losses.append(_loss(task, result, target).item() * len(indices))
                labels.append(split.labels[indices])
    answers = task.kind.joined(outputs)
    if not split.labelled:
        return Evaluation(math.nan, math.nan, answers)
    return Evaluation(sum(losses) / len(split.labels), task.kind.score.of(answers, np.concatenate(labels)), answers)


def ask(layer: Any, batch: Mapping[str, np.ndarray[Any, Any]], form: ArgumentForm) -> dict[str, Any]:
    """The outputs of the layer for one batch, without gradients."""
    import paddle

    with paddle.no_grad():
        return building.forward(layer, form.give({name: paddle.to_tensor(array) for name, array in batch.items()}))


def _train_epoch(
    layer: Any,
    optimizer: Optimizer,
    split: Split,
    preprocess: Preprocess,
    settings: Train,
    *,
    form: ArgumentForm,
    task: Task,
    random: np.random.Generator,
    label: str,
) -> float:
    """One pass over the training rows. Returns the mean loss, or the first loss that is not finite."""
    layer.train()
    progress = Progress(label, len(split.labels), "rows", eta=False)
    total = 0.0
    for indices in _batches(split.examples, settings.batch_size, random):
        result, target = _forward(layer, split, indices, preprocess, form, task)
        loss = _loss(task, result, target)
        value = float(loss.item())
        if not math.isfinite(value):
            return value
        try:
            optimizer.add(loss)
        except Exception as failure:
            raise ModelError(f"the gradient of {type(layer).__name__} failed ({explain(failure)}): fix forward or train.loss") from None
        total += value * len(indices)
        progress.advance(len(indices))
    optimizer.flush()
    return total / len(split.labels)


def _forward(
    layer: Any, split: Split, indices: Sequence[int], preprocess: Preprocess, form: ArgumentForm, task: Task
) -> tuple[dict[str, Any], Any]:
    """The outputs for one batch, and its labels; None if rows have none."""
    import paddle

    batch = preprocess.collate([split.examples[index] for index in indices])
    outputs = building.forward(layer, form.give({name: paddle.to_tensor(array) for name, array in batch.items()}))
    if not split.labelled:
        return outputs, None
    return outputs, paddle.to_tensor(task.kind.batched(split.labels[indices], lambda: preprocess.width(batch)))


def _loss(task: Task, outputs: dict[str, Any], labels: Any) -> Any:
    advice = "fix that function" if task.chosen else "correct data.task, data.label or the model's first output"
    what = f"train.loss {task.chosen!r}" if task.chosen else f"the {task.name} loss"
    try:
        loss = task.loss(outputs, labels)
    except Exception as failure:
        shapes = f"outputs {', '.join(outputs)} (the first: {list(_first(outputs).shape)}) and labels {list(labels.shape)}"
        raise ModelError(f"{what} failed on {shapes} ({explain(failure)}): {advice}") from None
    if not hasattr(loss, "backward") or loss.size != 1:
        gave = f"a tensor of shape {list(loss.shape)}" if hasattr(loss, "shape") else type(loss).__name__
        raise ModelError(f"{what} returned {gave}, and training needs one number: return the mean as a tensor")
    return loss


def _first(outputs: Mapping[str, Any]) -> Any:
    return next(iter(outputs.values()))


def _batches(examples: Sequence[Example], size: int, random: np.random.Generator | None) -> Iterator[list[int]]:
    """The indices of each batch: in order without `random`, otherwise shuffled, with rows of similar length together."""
    if random is None:
        yield from (list(range(start, min(start + size, len(examples)))) for start in range(0, len(examples), size))
        return
    order = random.permutation(len(examples))
    lengths = np.array([sum(array.size for array in example.values()) for example in examples])
    batches = []
    for start in range(0, len(order), size * _WINDOW):
        window = order[start : start + size * _WINDOW]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += [window[offset : offset + size].tolist() for offset in range(0, len(window), size)]
    yield from (batches[index] for index in random.permutation(len(batches)))
