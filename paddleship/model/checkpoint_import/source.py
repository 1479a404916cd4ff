"""The source of weights that takes them from a file: nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddleship.config.sections.train import CheckpointFile
from paddleship.errors import ModelError
from paddleship.model.checkpoint_import import files
from paddleship.model.checkpoint_import.applying import apply
from paddleship.model.weight_source import Obtained, Setup, WeightSource
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Preprocess

_ADVICE = "check that the file belongs to model.factory, preprocess and data.classes, or lower train.min_score"


class Import(WeightSource):
    def __init__(self, settings: CheckpointFile) -> None:
        self._settings = settings

    def obtain(self, setup: Setup) -> Obtained:
        """Set the weights that the file holds, by name."""
        path = Path(self._settings.checkpoint)
        before = files.digest(path)
        notes = apply(setup.layer, files.read(path), origin=str(path), key=self._settings.key)
        if files.digest(path) != before:
            raise ModelError(f"{str(path)!r} changed while it was read: run train again when it is complete")
        done = ", ".join(["imported", *notes])
        return Obtained(
            [],
            origin=f"with the weights of {path} ({done})",
            advice=_ADVICE,
            facts={"imported": {"imported_from": str(path), "imported_sha256": before, "notes": [*notes]}},
            findings=[*refitted(setup.preprocess, path), *_perhaps_transposed(setup.layer, path)],
        )

    def digest(self, root: Path) -> str:
        return files.digest(Path(self._settings.checkpoint), root)


def refitted(preprocess: Preprocess, path: Path) -> list[Finding]:
    """A warning if an input is made with what was learned from this data, which need not be what the weights were trained with."""
    fitted = [one.spec.name for one in preprocess.encoders if one.learns]
    if not fitted:
        return []
    unknown = f"{str(path)!r} does not say with which one its weights were trained"
    message = f"the preprocess of {', '.join(fitted)} was fitted on this data, and {unknown}"
    advice = "prepare the same rows as then, with the same params; set train.min_score, which shows whether ids or scales differ"
    return [Finding("refitted-preprocess", "warning", message, advice)]


def _perhaps_transposed(layer: Any, path: Path) -> list[Finding]:
    """A warning for square matrices of a safetensors file that does not name the framework that wrote it."""
    import paddle

    if path.suffix != ".safetensors" or files.framework(path):
        return []
    linear = (part for part in layer.sublayers(include_self=True) if isinstance(part, paddle.nn.Linear))
    square = [part.weight for part in linear if part.weight.shape[0] == part.weight.shape[1]]
    if not square:
        return []
    message = (
        f"{str(path)!r} does not say which framework wrote it, and the model has {len(square)} square Linear weights, which PyTorch keeps "
        "transposed"
    )
    return [Finding("perhaps-transposed", "warning", message, "set train.min_score; save the file from Paddle if PyTorch wrote it")]
