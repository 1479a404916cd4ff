"""Eager training: seeded, with early stopping by the validation loss or score; the best weights are kept.

Not supported: resuming, several devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paddleship.config.sections.train import Train
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.errors import ModelError, ParamsError
from paddleship.model import building, device
from paddleship.model.optimizing import Optimizer
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Example, Preprocess
from paddleship.shipped.computing.references import explain, resolve
from paddleship.system.progress import Progress, clock

OnEpoch = Callable[[Mapping[str, float], int], None]
_WINDOW = 20  # batches that are sorted by length together, to reduce padding


@dataclass(frozen=True)
class Split:
    """Encoded examples and their labels, which are empty if rows have none. `by_epoch` are those that an epoch trains on, if others."""

    examples: Sequence[Example]
    labels: np.ndarray[Any, Any]
    by_epoch: Callable[[int], Sequence[Example]] | None = None

    @property
    def labelled(self) -> bool:
        return len(self.labels) > 0

    def at(self, epoch: int) -> Split:
        """The split with the examples of this epoch, for training."""
        return replace(self, examples=self.by_epoch(epoch)) if self.by_epoch else self


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
    """Metrics of each evaluation as flat dicts; `best` is the index of the one whose weights the model has.

    There is one at the end of each epoch, and with train.evaluate_steps others before, whose `epoch` is how many are done.
    """

    evaluations: list[dict[str, float]] = field(default_factory=list)
    best: int = 0
    diverged: str | None = None

    @property
    def waited(self) -> int:
        """Evaluations since the best one."""
        return len(self.evaluations) - 1 - self.best

    def epoch(self, index: int) -> float:
        """The epochs that were done at an evaluation."""
        return self.evaluations[index].get("epoch", range(1, len(self.evaluations) + 1)[index])

    @property
    def score(self) -> float:
        return self.evaluations[self.best]["validation_score"] if self.evaluations else math.nan


@dataclass(frozen=True)
class Task:
    """The training task: the loss to minimise, and its kind, which has the score to report."""

    name: str
    loss: Callable[[dict[str, Any], Any], Any]
    chosen: str | None = None  # train.loss, if it is set

    @property
    def kind(self) -> TaskKind:
        return task_kinds.get(self.name)


def make_task(name: str, settings: Train, *, labels: np.ndarray[Any, Any] | None = None, classes: Sequence[str] = ()) -> Task:
    """The task with its default loss, or with the loss that train.loss names. With the training `labels`, the loss weights classes."""
    if settings.loss:
        return Task(name, resolve(settings.loss, key="train.loss", error=ModelError), settings.loss)
    loss = task_kinds.get(name).loss
    if labels is not None and settings.class_weights != "none":
        loss = _weighted(task_kinds.get(name), settings.class_weights, labels, classes)
    return Task(name, lambda outputs, labels: loss(_first(outputs), labels))


def _weighted(
    kind: TaskKind, weights: str | Mapping[str, float], labels: np.ndarray[Any, Any], classes: Sequence[str]
) -> Callable[[Any, Any], Any]:
    """The default loss with weights of classes. Raises ParamsError if the task has no classes, or not the named ones."""
    import paddle

    if (weighting := kind.class_weights) is None:
        raise ParamsError(f"train.class_weights is {weights!r}, and a {kind.name} task weights no classes: set it to none")
    if not isinstance(weights, str) and (strange := [name for name in weights if name not in classes]):
        known = f"it has {', '.join(classes)}" if classes else "it is empty"
        raise ParamsError(f"train.class_weights names {strange[0]!r}, which is not in data.classes ({known}): correct the name")
    if isinstance(weights, str):
        values = weighting.balanced(labels, len(classes) or int(labels.max()) + 1)
    else:
        values = np.array([weights.get(name, 1.0) for name in classes])
    tensor = paddle.to_tensor(values.astype(np.float32))
    return lambda output, labels: weighting.loss(output, labels, tensor)


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
    """Train `layer` in place; afterwards it has the weights of its best evaluation.

    `form` maps the inputs of a batch to the arguments of forward. Stops after `patience` evaluations without a better one by `best`, and
    immediately, with `diverged` set, if a loss is not finite.
    """
    optimizer = Optimizer(layer, settings, math.ceil(len(train.labels) / settings.batch_size))
    random = np.random.default_rng(seed)
    course = _Course(layer, settings, optimizer)
    started = time.monotonic()
    for epoch in range(settings.epochs):
        begun = time.monotonic()
        for trained in _train_epoch(layer, optimizer, train, preprocess, settings, form=form, task=task, random=random, epoch=epoch):
            if not math.isfinite(trained.loss):
                return course.diverged(f"the training loss is {trained.loss} in epoch {epoch + 1}")
            evaluated = evaluate(layer, validation, preprocess, form=form, task=task, batch_size=settings.batch_size)
            if not math.isfinite(evaluated.loss):
                return course.diverged(f"the validation loss is {evaluated.loss} in epoch {epoch + 1}")
            seconds = time.monotonic() - begun
            metrics = {
                **({"epoch": epoch + trained.share} if settings.evaluate_steps else {}),
                "train_loss": trained.loss,
                "validation_loss": evaluated.loss,
                "validation_score": evaluated.score,
                "rows_per_s": trained.rows / seconds,
                "epoch_seconds": seconds,
            }
            course.add(metrics)
            on_epoch(metrics, len(course.history.evaluations) - 1)
            rest = clock((time.monotonic() - started) / (epoch + trained.share) * (settings.epochs - epoch - trained.share))
            figures = f"loss {trained.loss:.4f}  validation {evaluated.loss:.4f}  {task.kind.score.name} {evaluated.score:.4f}"
            print(f"epoch {epoch + trained.share:g}/{settings.epochs}  {figures}  {metrics['rows_per_s']:,.0f} rows/s  eta {rest}")
            if course.history.waited >= settings.patience and epoch + trained.share < settings.epochs:
                return course.stopped()
            begun = time.monotonic()
    return course.ended()


class _Course:
    """The course of a training: its history, and the weights of its best evaluation."""

    def __init__(self, layer: Any, settings: Train, optimizer: Optimizer) -> None:
        self._layer, self._settings, self._optimizer = layer, settings, optimizer
        self._reached, self._weights = math.inf, dict[str, Any]()
        self.history = History()

    def add(self, metrics: dict[str, float]) -> None:
        """Add an evaluation, and keep the weights if it is the best. One without a score is not, where the score decides."""
        self.history.evaluations.append(metrics)
        reached = metrics["validation_loss"] if self._settings.best == "loss" else -metrics["validation_score"]
        better = math.isfinite(reached) and reached < self._reached
        self._optimizer.evaluated(better=better)
        if better:
            self._reached, self.history.best = reached, len(self.history.evaluations) - 1
            self._weights = {name: tensor.numpy().copy() for name, tensor in self._layer.state_dict().items()}

    def diverged(self, why: str) -> History:
        self.history.diverged = why
        return self.history

    def stopped(self) -> History:
        settings, history = self._settings, self.history
        if not self._weights:
            return self.ended()
        better, what = ("lower" if settings.best == "loss" else "higher"), ("evaluations" if settings.evaluate_steps else "epochs")
        kept = f"keeping the weights of epoch {history.epoch(history.best):g}"
        print(f"stopped early: no {better} validation {settings.best} for {settings.patience} {what}; {kept}")
        return self.ended()

    def ended(self) -> History:
        """Give the layer its best weights. Raises ModelError if no evaluation has a score, where the score decides."""
        if not self._weights:
            count, score = len(self.history.evaluations), self.history.score
            raise ModelError(
                f"the validation score is not finite in any of {count} evaluations ({score} in the first), so none is the best: correct "
                "data.task.metric or the model, or set train.best: loss"
            )
        self._layer.set_state_dict(self._weights)
        return self.history


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


@dataclass(frozen=True)
class _Trained:
    """A part of an epoch: its mean loss, or the first loss that is not finite; its rows; and the share of the epoch that is done."""

    loss: float
    rows: int
    share: float


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
    epoch: int,
) -> Iterator[_Trained]:
    """One pass over the training rows: yields after every train.evaluate_steps steps, and at the end."""
    shown = split.at(epoch)
    progress = Progress(f"epoch {epoch + 1}/{settings.epochs}", len(split.labels), "rows", eta=False)
    total, rows, done = 0.0, 0, 0
    every = (settings.evaluate_steps or 0) * settings.accumulate
    layer.train()
    for number, indices in enumerate(_batches(split.examples, settings.batch_size, random), 1):
        with device.casting(settings):
            result, target = _forward(layer, shown, indices, preprocess, form, task)
            loss = _loss(task, result, target)
        value = float(loss.item())
        if not math.isfinite(value):
            yield _Trained(value, rows, 1)
            return
        try:
            optimizer.add(loss)
        except Exception as failure:
            raise ModelError(f"the gradient of {type(layer).__name__} failed ({explain(failure)}): fix forward or train.loss") from None
        total, rows, done = total + value * len(indices), rows + len(indices), done + len(indices)
        progress.advance(len(indices))
        if every and number % every == 0 and done < len(split.labels):
            yield _Trained(total / rows, rows, done / len(split.labels))
            total, rows = 0.0, 0
            layer.train()
    optimizer.flush()
    yield _Trained(total / rows, rows, 1)


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
