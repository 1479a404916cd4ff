"""The optimizer of the training loop, and the course of its step size."""

from __future__ import annotations

import math
from typing import Any

from paddleship.config.sections.train import Train

_MOMENTUM = 0.9


class Optimizer:
    """Steps once for every `train.accumulate` batches, and at the end of an epoch. `batches` is their number in an epoch."""

    def __init__(self, layer: Any, settings: Train, batches: int) -> None:
        import paddle

        self._settings, self._waiting = settings, 0
        self._plateau = _Plateau(settings)
        self._rate = schedule(settings, math.ceil(batches / settings.accumulate), self._plateau)
        self._scaler = paddle.amp.GradScaler() if settings.amp == "float16" else None
        self._optimizer = _make(layer.parameters(), settings, self._rate)

    def add(self, loss: Any) -> None:
        """Add the gradients of a batch. Raises whatever `backward` raises."""
        loss = loss / self._settings.accumulate if self._settings.accumulate > 1 else loss
        (self._scaler.scale(loss) if self._scaler else loss).backward()
        self._waiting += 1
        if self._waiting == self._settings.accumulate:
            self.flush()

    def flush(self) -> None:
        """Step with the gradients that were added since the last step."""
        if not self._waiting:
            return
        if self._scaler:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        else:
            self._optimizer.step()
        self._optimizer.clear_grad()
        if not isinstance(self._rate, float):
            self._rate.step()
        self._waiting = 0

    def evaluated(self, *, better: bool) -> None:
        """Say whether an evaluation was the best so far."""
        self._plateau.add(better=better)


class _Plateau:
    """The factor of the step size after evaluations that were not better, for the schedule `plateau`."""

    def __init__(self, settings: Train) -> None:
        self._settings, self._waited, self.factor = settings, 0, 1.0

    def add(self, *, better: bool) -> None:
        self._waited = 0 if better else self._waited + 1
        if self._waited == self._settings.schedule_every:
            self._waited, self.factor = 0, self.factor * self._settings.schedule_factor


def schedule(settings: Train, steps: int, plateau: _Plateau | None = None) -> Any:
    """The step size, or a schedule of it over all epochs, each of so many `steps`."""
    from paddle.optimizer import lr

    rate, total, warmup = settings.learning_rate, settings.epochs * steps, round(settings.warmup_epochs * steps)
    after: Any = rate
    if settings.schedule == "cosine":
        after = lr.CosineAnnealingDecay(rate, max(1, total - warmup))
    elif settings.schedule == "linear":
        after = lr.PolynomialDecay(rate, max(1, total - warmup), end_lr=0.0)
    elif settings.schedule == "step":
        after = lr.StepDecay(rate, settings.schedule_every * steps, settings.schedule_factor)
    elif settings.schedule == "plateau":
        factor = plateau or _Plateau(settings)
        return lr.LambdaDecay(rate, lambda step: min(1.0, step / warmup if warmup else 1.0) * factor.factor)
    return lr.LinearWarmup(after, warmup, 0.0, rate) if warmup else after


def _make(parameters: Any, settings: Train, rate: Any) -> Any:
    from paddle import nn, optimizer

    clip = nn.ClipGradByGlobalNorm(settings.clip_norm) if settings.clip_norm is not None else None
    shared = {"parameters": parameters, "weight_decay": settings.weight_decay, "grad_clip": clip}
    if settings.optimizer == "momentum":
        return optimizer.Momentum(rate, momentum=_MOMENTUM, **shared)
    kinds = {"adamw": optimizer.AdamW, "adam": optimizer.Adam, "sgd": optimizer.SGD}
    return kinds[settings.optimizer](rate, **shared)
