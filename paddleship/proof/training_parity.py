"""Compare training in eager mode and as `to_static`: the loss of every step, and every gradient.

The same weights see the same batches in the same order, in eager float64 (the truth), eager float32 (the reference) and `to_static`
float32, with the optimizer of paddleship.model.training. The rule is that of parity: no further from the truth than the reference,
times a limit. Gradients and the statistics of normalisation are compared after the first step, when all three still have the same
weights.

Dropout is 0 in all three, because a program draws its masks in another order. Not covered: mixed precision, other optimizers, random
parts of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.sections.train import Train
from paddleship.config.sections.verify import Verify
from paddleship.errors import BadInput, ModelError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.model.training import make_task
from paddleship.numerics import differences
from paddleship.numerics.differences import Array
from paddleship.plots import charts
from paddleship.proof.evidence import EPSILON
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import explain
from paddleship.system import isolate

_TINY = float(np.finfo(np.float32).tiny)
_OTHER_SEED = 1
_RATES = ("p", "dropout", "dropout_p", "attn_dropout", "act_dropout")  # attributes with the dropout rate of a layer


@dataclass(frozen=True)
class Trace:
    """The result of a few training steps: the loss of each, and gradients and statistics by name after the first."""

    losses: list[float]
    first: dict[str, Array] = field(repr=False)


@dataclass(frozen=True)
class TrainingParity:
    """The losses of eager and `to_static`, each gradient's error in units of eager's own, and the checks."""

    losses: dict[str, list[float]]
    ratios: dict[str, float]
    checks: list[Check]
    findings: list[Finding]

    def __bool__(self) -> bool:
        return all(check.passed for check in self.checks)

    def draw(self, limit: float, reports: Path) -> list[str]:
        """Draw the loss curves, and the parameters whose gradients differ most."""
        worst = dict(sorted(self.ratios.items(), key=lambda item: -item[1])[:12])
        title = "Error of gradients in to_static, in units of eager's own"
        drawn = []
        if self.losses:
            drawn.append(charts.curves(self.losses, reports, "verify/training.png", title="Loss of the same steps", x_label="step"))
        if worst:
            drawn.append(charts.noise(worst, limit, reports, "verify/gradients.png", title=title))
        return drawn


def compare(
    source_model: SourceModel, batches: Sequence[tuple[Batch, Array]], train: Train, *, task: str, settings: Verify
) -> TrainingParity:
    """Train on `batches` (inputs and labels, one pair per step) in the three ways, and judge."""
    traces: dict[str, Trace] = {}
    environment = isolate.threads(1)
    ways = {"eager float64": ("float64", False), "eager": ("float32", False), "to_static": ("float32", True)}
    try:
        with isolate.Isolated(
            "training", TrainingWorker, source_model, train, task, timeout_s=settings.timeout_s, environment=environment
        ) as child:
            for name, (dtype, static) in ways.items():
                traces[name] = Trace(*child.call("run", batches, dtype, static))
            again = child.call("run", batches[:1], "float32", False, _OTHER_SEED)[0]
    except BadInput as obstacle:
        return refused(str(obstacle))
    return _judge(traces["eager float64"], traces["eager"], traces["to_static"], again[0], settings)


def refused(reason: str) -> TrainingParity:
    """The result if one of the three ways does not train."""
    advice = "train in eager mode only (verify.training: false), or fix what it names"
    return TrainingParity({}, {}, [Check(name="training", measured=reason, limit="an answer", passed=False, advice=advice)], [])


class TrainingWorker:
    """The object in the child process: trains new instances from the checkpoint."""

    def __init__(self, source_model: SourceModel, train: Train, task: str) -> None:
        self._source_model, self._train = source_model, train
        self._task = make_task(task, train)

    def run(self, batches: Sequence[tuple[Batch, Array]], dtype: str, static: bool, seed: int = 0) -> tuple[list[float], dict[str, Array]]:
        """Train one step per batch. Raises ModelError."""
        import paddle
        from paddle import optimizer

        paddle.seed(self._source_model.seed + seed)
        paddle.set_default_dtype(dtype)
        layer = self._source_model.build()
        if dtype != "float32" and any(tensor.dtype == paddle.float32 for tensor in layer.state_dict().values()):
            layer.to(dtype=dtype)
        building.restore(layer, self._source_model.checkpoint)
        _still(layer)
        layer.train()
        adam = optimizer.AdamW(self._train.learning_rate, parameters=layer.parameters(), weight_decay=self._train.weight_decay)
        form = building.form(layer, self._source_model.model)
        called = building.to_static(layer) if static else layer
        names = [item.name for item in self._source_model.model.inputs]
        losses: list[float] = []
        first: dict[str, Array] = {}
        for inputs, labels in batches:
            tensors = {name: paddle.to_tensor(_cast(inputs[name], dtype)) for name in names}
            try:
                loss = self._task.loss(building.forward(called, form.give(tensors)), paddle.to_tensor(_cast(labels, dtype)))
                loss.backward()
            except ModelError:
                raise
            except Exception as failure:
                way = "to_static" if static else f"eager {dtype}"
                raise ModelError(f"{type(layer).__name__} does not train in {way} ({explain(failure)})") from None
            losses.append(float(loss.item()))
            first = first or _state(layer)
            adam.step()
            adam.clear_grad()
        return losses, first


def _still(layer: Any) -> None:
    """Set every dropout rate to 0."""
    for part in layer.sublayers(include_self=True):
        for name in _RATES:
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)


def _state(layer: Any) -> dict[str, Array]:
    """Gradients by parameter (zero if there is none), and the values that are kept and not trained."""
    arrays: dict[str, Array] = {}
    for name, one in [*layer.named_parameters(), *layer.named_buffers()]:
        if one.stop_gradient:
            arrays[f"{name} (kept)"] = one.numpy()
        else:
            arrays[name] = np.zeros(one.shape) if one.grad is None else one.grad.numpy()
    return arrays


def _judge(truth: Trace, reference: Trace, static: Trace, again: float, settings: Verify) -> TrainingParity:
    losses = {"eager": reference.losses, "to_static": static.losses}
    if not np.isfinite([again, *reference.losses]).all():
        advice = "lower train.learning_rate, or check for NaN in the data and for logarithms, roots and divisions in the loss"
        return TrainingParity(
            losses, {}, [Check.at_most("training_eager_loss", float("nan"), float(np.finfo(np.float32).max), advice=advice)], []
        )
    if again != reference.losses[0]:
        message = f"the loss of the first step is {reference.losses[0]:.6g} and, asked again, {again:.6g}: forward draws random numbers"
        advice = "use nn.Dropout for randomness in training, whose rate can be set to 0 for the comparison"
        check = Check(name="training_random", measured=1, limit=0, passed=False, advice=message)
        return TrainingParity(losses, {}, [check], [Finding("random-forward", "error", message, advice)])
    distance, noise = (differences.distance(np.array(one.losses), np.array(truth.losses)) for one in (static, reference))
    loss_ratio = distance / max(noise, EPSILON * differences.finite_max([np.array(truth.losses)]), _TINY)
    ratios = _ratios(truth.first, reference.first, static.first)
    worst = max(ratios, key=lambda name: ratios[name], default="")
    advice = "train in eager mode and export afterwards, or fix what the finding names"
    checks = [
        Check.at_most("training_loss_ratio", loss_ratio, settings.noise_limit, advice=advice),
        Check.at_most("gradient_ratio", ratios.get(worst, 0.0), settings.noise_limit, advice=f"{worst}: {advice}"),
    ]
    findings = [
        Finding("training-differs", "error", f"{name} is {ratio:.3g} × eager's noise off after a step of to_static", advice, layer=name)
        for name, ratio in sorted(ratios.items(), key=lambda item: -item[1])[:5]
        if ratio > settings.noise_limit
    ]
    return TrainingParity(losses, ratios, checks, findings)


def _ratios(truth: Mapping[str, Array], reference: Mapping[str, Array], static: Mapping[str, Array]) -> dict[str, float]:
    """Each tensor's error over the reference's, relative to the tensor's size; the reference's counts as at least the median of all."""
    scales = {name: differences.finite_max([array]) for name, array in truth.items()}
    own = {name: differences.distance(reference[name], array) for name, array in truth.items()}
    own = {name: noise if np.isfinite(noise) else 0.0 for name, noise in own.items()}  # NaN in eager only must not allow any error
    typical = float(np.median([own[name] / scale for name, scale in scales.items() if scale] or [0.0]))
    return {
        name: differences.distance(static[name], array) / max(own[name], max(typical, EPSILON) * scales[name], _TINY)
        if name in static
        else float("inf")
        for name, array in truth.items()
    }


def _cast(array: Array, dtype: str) -> Array:
    return array.astype(dtype) if array.dtype == np.float32 else array
