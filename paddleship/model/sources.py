"""Which source gives the model its weights: train.source."""

from __future__ import annotations

from paddleship.config.sections.train import CheckpointFile, ExportedFile, OwnTrainer, Train
from paddleship.model.checkpoint_import.source import Import
from paddleship.model.exported_file.source import Exported
from paddleship.model.fitting import Fit
from paddleship.model.own_trainer import Own
from paddleship.model.weight_source import WeightSource


def of(settings: Train) -> WeightSource:
    if isinstance(settings.source, CheckpointFile):
        return Import(settings.source)
    if isinstance(settings.source, ExportedFile):
        return Exported(settings.source)
    return Own(settings.source) if isinstance(settings.source, OwnTrainer) else Fit()
