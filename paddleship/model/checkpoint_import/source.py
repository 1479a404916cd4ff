"""The source of weights that takes them from a file: nothing is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paddleship.config.sections.train import CheckpointFile
from paddleship.errors import ModelError
from paddleship.model import building
from paddleship.model.checkpoint_import import files
from paddleship.model.checkpoint_import.matching import match
from paddleship.model.weight_source import Obtained, Setup
from paddleship.shipped.computing import layers

_ADVICE = "check that the file belongs to model.factory, preprocess and data.classes, or lower train.min_score"


class Import:
    def __init__(self, settings: CheckpointFile) -> None:
        self._settings = settings

    def obtain(self, setup: Setup) -> Obtained:
        """Set the weights that the file holds, by name."""
        path = Path(self._settings.checkpoint)
        before = files.digest(path)
        own = {name: np.asarray(tensor.numpy()) for name, tensor in setup.layer.state_dict().items()}
        matched = match(files.read(path), own, path=str(path), key=self._settings.key)
        if files.digest(path) != before:
            raise ModelError(f"{str(path)!r} changed while it was read: run train again when it is complete")
        if broken := next((name for name, count in building.not_finite(setup.layer, matched.weights).items() if count), None):
            raise ModelError(f"{str(path)!r} holds NaN or infinity in {broken!r}: give a checkpoint from before the training diverged")
        layers.fill(setup.layer, matched.weights)
        done = ", ".join(["imported", *matched.notes])
        imported = {"imported_from": str(path), "imported_sha256": before}
        return Obtained([], origin=f"{path} ({done})", advice=_ADVICE, facts={"imported": {**imported, "notes": [*matched.notes]}})
