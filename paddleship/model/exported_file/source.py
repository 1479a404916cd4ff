"""The source of weights that takes an exported program as the model: nothing is trained, and there is no factory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config.params import Params
from paddleship.config.sections.train import ExportedFile
from paddleship.errors import BadInput, ModelError
from paddleship.model import building, training
from paddleship.model.checkpoint_import.source import refitted
from paddleship.model.exported_file import formats
from paddleship.model.exported_file.file_format import Format
from paddleship.model.weight_source import Obtained, Setup, WeightSource
from paddleship.numerics import differences
from paddleship.reports.verdict import Check
from paddleship.shipped.computing import layers, program_layer
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate

_ROWS = 8  # that are answered one by one, and together
_SAME = 1e-5  # of the size of an output: the same kernels, in another order of operators at most
_DIFFERS = "the layer that runs its operators answers differently from the file: report it with the file; nothing was proven"
_ADVICE = "check that preprocess and data.classes are those of the exported model, or lower train.min_score"


class Exported(WeightSource):
    def __init__(self, settings: ExportedFile) -> None:
        self._settings = settings
        self._program: dict[str, Any] = {}
        self._digest = ""

    def build(self, params: Params) -> Any:
        """The layer of the program, with its weights. Raises ModelError."""
        files = formats.of(self._settings)
        self._digest = files.digest()
        self._program, weights = files.read(params.model.inputs, timeout_s=params.verify.timeout_s)
        layer = _layer(self._program, files.program)
        if broken := next((name for name, count in building.not_finite(layer, weights).items() if count), None):
            raise ModelError(f"{str(files.holder)!r} holds NaN or infinity in {broken!r}: export a model that did not diverge")
        layers.fill(layer, weights)
        return layer

    def obtain(self, setup: Setup) -> Obtained:
        """Compare the layer with the file."""
        files = formats.of(self._settings)
        check = _compare(setup, files)
        if files.digest() != self._digest:
            raise ModelError(f"{str(files.program)!r} changed while it was read: run train again when it is complete")
        name = f"the exported file {files.program}"
        if not check.passed:
            return Obtained([check], headline=f"{name} is not answered for")
        return Obtained(
            [check],
            origin=f"as {name} (imported, sha256 {self._digest[:12]}…)",
            advice=_ADVICE,
            facts={"imported": {"imported_from": str(files.program), "imported_sha256": self._digest, "notes": ["exported program"]}},
            metrics={"operators": len(self._program["operators"])},
            findings=refitted(setup.preprocess, files.program),
            files={program_layer.FILE: json.dumps(self._program, ensure_ascii=False) + "\n"},
        )

    def digest(self, root: Path) -> str:
        return formats.of(self._settings).digest(root)


def _layer(program: Mapping[str, Any], path: Path) -> Any:
    """The layer of the program. Raises ModelError for names that no layer can hold."""
    try:
        return program_layer.build(program)
    except (KeyError, TypeError, ValueError) as clash:
        reason = " ".join(str(clash).split())
        raise ModelError(
            f"the parameters of {str(path)!r} have names that a Paddle layer cannot hold ({reason}): export it with others"
        ) from None


def check_answers(pairs: Iterable[tuple[Arrays, Arrays]]) -> Check:
    """Check the answers of the layer, first of each pair, against those of the file: largest difference in units of each output's size."""
    worst = [differences.worst_relative(answered, expected) for answered, expected in pairs]
    return Check.at_most("exported_file_max_rel_diff", max(worst, default=np.nan), _SAME, advice=_DIFFERS)


def _compare(setup: Setup, files: Format) -> Check:
    """The check of the layer on real rows, against the file itself."""
    factory, arguments = files.predictor()
    setup.layer.eval()
    try:
        with isolate.Isolated("the exported file", factory, *arguments, timeout_s=setup.params.verify.timeout_s) as predictor:
            return check_answers(_pairs(setup, predictor))
    except ModelError:
        raise
    except BadInput as obstacle:
        raise ModelError(
            f"{str(files.program)!r} does not run in {files.runtime} ({obstacle}): check model.inputs and preprocess, or export it again"
        ) from None


def _pairs(setup: Setup, predictor: isolate.Isolated) -> Iterator[tuple[Arrays, Arrays]]:
    for batch in _batches(setup):
        answered = {name: tensor.numpy() for name, tensor in training.ask(setup.layer, batch, setup.form).items()}
        yield answered, _named(answered, predictor.call("run", batch))


def _batches(setup: Setup) -> Iterator[Batch]:
    examples = setup.splits["validation"].examples[:_ROWS]
    yield from (setup.preprocess.collate([example]) for example in examples)
    yield setup.preprocess.collate(examples)


def _named(answered: Arrays, outputs: list[np.ndarray[Any, Any]]) -> Arrays:
    """The outputs of the file under the names of the layer's; Paddle Inference gives an output without dimensions one."""
    pairs = zip(answered.items(), outputs, strict=True)
    return {name: output.reshape(array.shape) if output.size == array.size == 1 else output for (name, array), output in pairs}
