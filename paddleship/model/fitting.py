"""The source of weights that trains them, from the initial weights of the layer."""

from __future__ import annotations

import math

from paddleship.config.sections.train import Train
from paddleship.model import training
from paddleship.model.training import History
from paddleship.model.weight_source import Obtained, Setup, WeightSource
from paddleship.reports.verdict import Check


class Fit(WeightSource):
    """Trains on the training rows, and keeps the weights of the best epoch on the validation rows."""

    def obtain(self, setup: Setup) -> Obtained:
        settings = setup.params.train
        history = training.fit(
            setup.layer,
            setup.splits["train"],
            setup.splits["validation"],
            setup.preprocess,
            settings,
            form=setup.form,
            task=setup.task,
            seed=setup.params.seed,
            on_epoch=setup.on_epoch,
        )
        if not (loss := check_loss(history)).passed:
            return Obtained([loss], headline=f"diverged: {history.diverged}", history=history.evaluations)
        return Obtained(
            [loss],
            origin=f"with the weights of epoch {history.epoch(history.best):g} of {math.ceil(history.epoch(-1))}",
            advice=advice(history, settings),
            facts={"epoch": history.epoch(history.best)},
            metrics={
                "epochs": math.ceil(history.epoch(-1)),
                "best_epoch": history.epoch(history.best),
                "train_seconds": sum(row["epoch_seconds"] for row in history.evaluations),
                "rows_per_s": max(row["rows_per_s"] for row in history.evaluations),
            },
            history=history.evaluations,
        )


def check_loss(history: History) -> Check:
    """Whether every loss was a finite number."""
    finite = bool(history.evaluations) and not history.diverged
    advice = "lower train.learning_rate, or check the data for NaN"
    return Check(name="loss", measured="finite" if finite else history.diverged, limit="finite", passed=finite, advice=advice)


def advice(history: History, settings: Train) -> str:
    """How to reach a better score."""
    better = "lower" if settings.best == "loss" else "higher"
    waited = "evaluations" if settings.evaluate_steps else "epochs"
    early = f"no {better} validation {settings.best} for {history.waited} {waited} ended the training: raise train.patience"
    longer = early if history.waited >= settings.patience else "raise train.epochs"
    return f"{longer}, check the data, or lower train.min_score"
