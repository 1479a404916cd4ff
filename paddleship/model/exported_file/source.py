"""The source of weights that takes an exported program as the model: nothing is trained, and there is no factory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from paddleship.model.float64 import Doubled
from paddleship.model.weight_source import Obtained, Setup, WeightSource
from paddleship.numerics import differences
from paddleship.reports.verdict import Check
from paddleship.shipped.computing import layers, program_layer
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate

_ROWS = 8  # that are answered one by one, and together
_SAME = 1e-5  # of the size of an output: the same kernels, in another order of operators at most
_OTHER_KERNELS = 4  # times the layer's own rounding, which other kernels may differ by
_MOST = 1e-3  # that the rounding may explain
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


@dataclass(frozen=True)
class Answers:
    """The answers to one batch: of the layer, of the file, and of the layer in float64 if the file runs on other kernels."""

    layer: Arrays
    file: Arrays
    exact: Arrays | None = None


def check_answers(batches: Iterable[Answers]) -> Check:
    """Check the answers of the layer against those of the file: the largest difference in units of each output's size."""
    asked = list(batches)
    worst = max((differences.worst_relative(one.layer, one.file) for one in asked), default=np.nan)
    rounding = max((differences.worst_relative(one.layer, one.exact) for one in asked if one.exact is not None), default=0.0)
    limit = max(_SAME, min(_OTHER_KERNELS * rounding, _MOST))
    return Check.at_most("exported_file_max_rel_diff", worst, limit, advice=_DIFFERS)


def _compare(setup: Setup, files: Format) -> Check:
    """The check of the layer on real rows, against the file itself."""
    factory, arguments = files.predictor()
    setup.layer.eval()
    try:
        with isolate.Isolated("the exported file", factory, *arguments, timeout_s=setup.params.verify.timeout_s) as predictor:
            return check_answers(_answers(setup, predictor, other_kernels=files.other_kernels))
    except ModelError:
        raise
    except BadInput as obstacle:
        raise ModelError(
            f"{str(files.program)!r} does not run in {files.runtime} ({obstacle}): check model.inputs and preprocess, or export it again"
        ) from None


def _answers(setup: Setup, predictor: isolate.Isolated, *, other_kernels: bool) -> Iterator[Answers]:
    for batch in _batches(setup):
        answered = _ask(setup, batch)
        yield Answers(answered, _named(answered, predictor.call("run", batch)), _in_float64(setup, batch) if other_kernels else None)


def _ask(setup: Setup, batch: Batch) -> Arrays:
    return {name: tensor.numpy() for name, tensor in training.ask(setup.layer, batch, setup.form).items()}


def _in_float64(setup: Setup, batch: Batch) -> Arrays | None:
    """The answers of the layer in float64; None if it does not run there."""
    try:
        with Doubled():
            return _ask(setup, batch)
    except ModelError:
        return None


def _batches(setup: Setup) -> Iterator[Batch]:
    examples = setup.splits["validation"].examples[:_ROWS]
    yield from (setup.preprocess.collate([example]) for example in examples)
    yield setup.preprocess.collate(examples)


def _named(answered: Arrays, outputs: list[np.ndarray[Any, Any]]) -> Arrays:
    """The outputs of the file under the names of the layer's; Paddle Inference gives an output without dimensions one."""
    pairs = zip(answered.items(), outputs, strict=True)
    return {name: output.reshape(array.shape) if output.size == array.size == 1 else output for (name, array), output in pairs}
