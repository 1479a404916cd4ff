"""A source of weights: builds a layer, gives it its weights, and says how. `paddleship.model.fitting.Fit` trains them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.model import building
from paddleship.model.training import OnEpoch, Split, Task
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.arguments import ArgumentForm
from paddleship.shipped.computing.preprocess import Preprocess


@dataclass(frozen=True)
class Setup:
    """What a source works with: a layer that has only its initial weights, the encoded parts of the data, and the task.

    A source that trains calls `on_epoch` with the metrics of each epoch. What it writes into `folder` it finds there again if the stage
    ended early and runs again with the same data, code and params.
    """

    params: Params
    layer: Any
    form: ArgumentForm
    preprocess: Preprocess
    splits: Mapping[str, Split]
    task: Task
    on_epoch: OnEpoch
    folder: Path


@dataclass(frozen=True)
class Obtained:
    """How the layer got its weights.

    `checks` must pass before weights are scored and saved; if one fails, `headline` says what happened. `origin` says what was
    scored, as in "with the weights of epoch 3 of 5". `advice` is the next step if their score is too low. `facts` and `files` (texts by
    name) go into the checkpoint, `metrics` and `history` (the metrics of each epoch, empty if nothing was trained) into the report.
    """

    checks: Sequence[Check]
    headline: str = ""
    origin: str = ""
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float | int] = field(default_factory=dict)
    history: Sequence[Mapping[str, float]] = ()
    findings: Sequence[Finding] = ()
    files: Mapping[str, str] = field(default_factory=dict)


class WeightSource(ABC):
    def build(self, params: Params) -> Any:
        """A layer with its initial weights. Raises ModelError."""
        return building.build(params.model)

    @abstractmethod
    def obtain(self, setup: Setup) -> Obtained:
        """Give `setup.layer` its weights, in place. Raises ModelError."""

    def digest(self, root: Path) -> str | None:  # noqa: ARG002 for sources that read files
        """The hash of the files that it reads below `root`; None if the weights are made here. Raises ModelError."""
        return None
