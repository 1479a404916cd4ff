"""Findings about the data, a model, a candidate or the machine: kind, severity, location and advice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


KINDS: dict[str, str] = {
    # the data
    "unusable-rows": "rows are dropped because a value is missing, a text is empty, or equal inputs have different labels",
    "filled-numbers": "numbers are missing, and are filled with the mean or median of the training rows, as in requests",
    "rounded-values": "values that differ become equal in the model's dtype, so that rows repeat or a column loses its meaning",
    "truncated-rows": "many rows have a text of which the model reads only the beginning",
    "absent-class": "a class of data.classes has no training row or no test row",
    "few-rows": "there are few held-out rows, so that intervals of scores and decisions are wide",
    "refitted-preprocess": "imported weights were trained with ids or scales that may differ from those that this data gives",
    "perhaps-transposed": "imported square weights may be transposed, because their file does not name the framework that wrote it",
    "no-skill": "the score is not shown to be better than that of always answering the largest class, or the mean",
    "below-linear": "the score is shown to be worse than that of a linear model that was fitted on the same rows in seconds",
    "short-output": "texts of labels are too long for the steps that the model gives, so that they cannot be read",
    "unchosen-class": "the model chooses a class for no test row, although test rows have it",
    "near-repeat": "held-out rows nearly equal training rows, so that the score is better than on new data",
    # the model's code, before or during conversion
    "bad-model": "the factory does not import, fails, or gives no Layer; or forward fails in eager mode on the declared inputs",
    "graph-break": "a line that cannot become part of a static graph, for another reason than those below",
    "python-value": "a tensor is turned into a Python or numpy value, and the line needs the value while it converts",
    "frozen-value": "a tensor's value was read while converting, and the program always uses that value",
    "frozen-branch": "an `if` or `while` was decided while converting, and the program always takes that side",
    "frozen-dimension": "a dimension declared dynamic works with one size only after export",
    "unknown-size": "code that Paddle does not rewrite reads a dynamic size while converting, where it is -1",
    "uncovered-branch": "a side of a data-dependent `if` or `while` was never taken by any input",
    "dynamic-shape-branch": "an `if` or `while` depends on the size of a dynamic dimension",
    "branch-mismatch": "the sides of a data-dependent `if` return different things (None, dtypes, shapes)",
    "loop-value": "a loop over a tensor starts with None or a number, or fills an attribute; with a tensor or a local variable it is right",
    "changed-statement": "the conversion changes what a statement does, and eager with this change answers as the program does",
    "stale-tensor": "forward stores a tensor on self, and the program keeps the one of the export",
    "train-mode": "a layer is, or behaves as, in train mode although the model is evaluated",
    "random-forward": "forward draws random numbers in evaluation mode",
    "unregistered-layer": "a layer or parameter in a plain Python container: its weights are not saved",
    "shared-name": "two sublayers or parameters of one name overwrite each other",
    "layer-in-forward": "forward creates a layer or parameter in every call",
    "parameter-assignment": "forward assigns to a parameter or buffer",
    "unused-input": "a declared input does not affect any output",
    "signature": "the signature of forward cannot be exported (*args, a first argument not named self, …)",
    "output-structure": "outputs that an exported program drops, renames or reorders; the mapping is recorded",
    "global-state": "forward reads or writes state outside the model",
    "batch-dependent": "the eager model's own answer to a row depends on the other rows of its batch or on padding",
    "class-count": "the first output does not hold one score for each class, so that there is no label or a wrong score",
    "random-answer": "answer.own returns different answers for the same outputs",
    "scores-form": "data.task or answer.scores says logits where the first output holds probabilities, or the reverse",
    "hidden-influence": "the eager model's answers change with the clock, an environment variable or earlier calls",
    "no-float64": "the eager model does not run in float64 as a whole; the report names what is used instead",
    "failed-control": "clearly wrong answers pass the checks of this run, so its results prove nothing",
    "inaccurate-reference": "eager's own error is far above float32's rounding, as with TF32, so that nothing can be proven in its unit",
    "loosened-limits": "params allow a candidate to be further from eager, or compare fewer answers, than by default",
    "not-exercised": "an output was empty or constant for every input tried, or an input had no influence: nothing is proven about it",
    "two-values": "a float output has only two values, so nothing but the choice between them was compared",
    "drawn-only": "an output or a branch was exercised by drawn inputs only, by no row of the data",
    "nan-weights": "the weights hold NaN or infinity",
    "out-of-time": "the examination ran out of time before this was known",
    "assumed-range": "the values of a whole-number input were not declared, and a small range was tried",
    # the machine
    "disturbed": "others used the GPU, or they or the host of a virtual machine so much processor time, that measurements are not valid",
    "imprecise": "figures of a benchmark are less reliable than on a quiet machine with enough time",
    "not-measured": "there was no time or no core for a batch size or a number of processes",
    "undrawn-names": "no installed font has the letters of a class name, so that a picture shows the number of the class",
    # a candidate: conversion
    "unsupported-operator": "a runtime or converter does not know an operator of the model",
    "conversion-failed": "the converter gave up for another reason",
    "crash": "the candidate's process was ended by a signal",
    "hang": "the candidate's process did not answer in time",
    "fewer-dimensions": "the program keeps fewer dynamic dimensions than declared; inputs are padded to fixed sizes",
    # a candidate: answers
    "another-form": "names, number, dtypes or shapes of the outputs differ from eager's",
    "program-departs": "the exported program answers differently from eager on the same kernels, by more than rounding explains",
    "weights-differ": "the candidate holds other weights than the checkpoint",
    "weights-not-compared": "nothing reads the candidate's files, so that only its answers prove its weights",
    "dtype-differs": "the candidate computes or answers in another dtype than candidate.json says",
    "preprocess-differs": "the candidate's preprocess differs from that of the prepared data",
    "not-finite": "the eager model answers NaN or infinity, or a candidate does where eager does not, or the other way round",
    "score-not-finite": "the score of eager's own answers is NaN or infinite, so that a lower precision cannot be judged by it",
    "served-differently": "the image or its server answers differently from the candidate that was proven",
    "shape-specific": "wrong for some shapes only",
    "thread-specific": "wrong only when several threads call it",
    "not-deterministic": "the same input gives different answers",
    "batch-variant": "the answer to a row depends on its batch, where eager's does not",
    "wrong-layer": "the first layer whose output differs from the reference",
    "wrong-pass": "one optimisation pass makes the answers wrong",
    "low-precision": "a lower precision changes more decisions than allowed, and no other fault was found",
    "training-differs": "loss, gradients or kept statistics differ when the model trains as `to_static`",
    "wrong-answers": "the answers are wrong and none of the causes above was found",
}


def counted(severities: Iterable[str]) -> str:
    """How many errors and warnings there are: `1 error and 2 warnings`; empty if there is none."""
    counts = Counter(severities)
    return " and ".join(f"{counts[one]} {one}{'s' * (counts[one] > 1)}" for one in ("error", "warning") if counts[one])


@dataclass(frozen=True)
class Finding:
    """One finding.

    `kind` is a stable name from KINDS. `message` has the thing, its value and the reason, `advice` the next step. `where` is
    `file:line` in the user's code, `layer` the class or the path of the sublayer.
    """

    kind: str
    severity: Severity
    message: str
    advice: str = ""
    where: str | None = None
    layer: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no kind of finding {self.kind!r}: add it to KINDS")

    def __str__(self) -> str:
        location = f" at {self.where}" if self.where else f" in {self.layer}" if self.layer and not self._says_layer() else ""
        return f"{self.severity}: {self.kind}: {self.message}{location}" + (f"\n    {self.advice}" if self.advice else "")

    def _says_layer(self) -> bool:
        """Whether the message already names the layer (or pass, or weight); a number in the message is something else."""
        return not str(self.layer).isdigit() and f" {self.layer} " in f" {re.sub(r'[,;:()]', ' ', self.message)} "

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
