"""Find a dynamic dimension that works for some sizes only after the conversion, although eager accepts all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from paddleship.conversion import pir
from paddleship.doctor.ast_lint import Suspect
from paddleship.errors import CandidateError, ProcessDied, ProcessHung
from paddleship.proof.answering import AnswerWorker, candidate
from paddleship.proof.evidence import Evidence
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Arrays
from paddleship.system import isolate

_ADVICE = (
    "compute sizes with tensors (reshape with -1, paddle.shape(x)), not with Python numbers; or declare the size as a number. Otherwise "
    "`export` uses a few fixed sizes and pads to them (export.buckets)"
)
_LEAVE_OUT = "declare the dimension as a number, or ship another runtime (in params.yaml: optimize.candidates)"

_SHAPE = frozenset({"1.shape", "1.shape64"})


def frozen(folder: Path, evidence: Evidence, suspects: Sequence[Suspect], *, program_proven: bool, timeout_s: float) -> list[Finding]:
    """A finding if the candidate in `folder` answers, with eager's shapes, for some sizes of a dimension only.

    `program_proven`: the program that it was made from accepts all sizes, so the runtime is the cause and not a line of the model.
    """
    answers = _ask(folder, evidence, timeout_s=timeout_s)
    fits = [
        isinstance(answer, dict) and _shapes(answer) == _shapes(reference)
        for answer, reference in zip(answers, evidence.reference, strict=True)
    ]
    if all(fits):
        return []
    failure = next((answer for answer in answers if isinstance(answer, str)), "the answer has another shape")
    where = next((suspect.where for suspect in suspects if suspect.pattern == "frozen-dimension"), None)
    if not any(fits):
        return []
    findings = []
    for name, sizes in _dimensions(Candidate.load(folder), evidence).items():
        good = {size for size, fit in zip(sizes, fits, strict=True) if fit}
        bad = {size for size, fit in zip(sizes, fits, strict=True) if not fit}
        if bad and not good & bad:
            message = f"works with {_list(good)} and not with {_list(bad)} ({failure})"
            findings.append(
                Finding("shape-specific", "error", f"{name} is dynamic in the program, and this runtime {message}", _LEAVE_OUT)
                if program_proven
                else Finding("frozen-dimension", "error", f"{name} is declared dynamic, and the program {message}", _ADVICE, where)
            )
    return findings


def only_sizes(folder: Path) -> set[str]:
    """The inputs of which the program in `folder` reads the shape only."""
    program = json.loads((folder / "model.json").read_text(encoding="utf-8"))["program"]
    operators = [operator for block in pir.blocks(program) for operator in block["ops"]]
    readers: dict[int, set[str]] = {}
    for operator in operators:
        for value in operator.get("I", ()):
            readers.setdefault(value["%"], set()).add(operator["#"])
    inputs = {operator["O"][0]["%"]: str(pir.attribute(operator, "name")) for operator in operators if operator["#"] == "1.data"}
    return {name for number, name in inputs.items() if (kinds := readers.get(number)) and kinds <= _SHAPE}


def _ask(folder: Path, evidence: Evidence, *, timeout_s: float) -> list[Arrays | str]:
    """The answer to every case, or the error; a child that dies is restarted for the next case."""
    answers: list[Arrays | str] = []
    while len(answers) < len(evidence.cases):
        try:
            with isolate.Isolated("the candidate", AnswerWorker, candidate(folder), timeout_s=timeout_s) as child:
                _go_on(child, evidence, answers)
        except CandidateError as error:
            answers.append(str(error))
            if not any(isinstance(answer, dict) for answer in answers) and len(answers) > 2:
                return [str(error)] * len(evidence.cases)
    return answers


def _go_on(child: isolate.Isolated, evidence: Evidence, answers: list[Arrays | str]) -> None:
    for case in evidence.cases[len(answers) :]:
        try:
            answers.append(child.call("run", case.inputs))
        except (ProcessDied, ProcessHung):
            raise
        except CandidateError as error:
            answers.append(str(error))


def _shapes(answer: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in answer.items()}


def _dimensions(model: Candidate, evidence: Evidence) -> dict[str, list[int]]:
    """The size of each dynamic dimension in every case."""
    sizes: dict[str, list[int]] = {}
    for spec in model.inputs:
        for axis, name in enumerate(spec.shape):
            if isinstance(name, str):
                sizes.setdefault(name, [case.inputs[spec.name].shape[axis] for case in evidence.cases])
    return sizes


def _list(sizes: set[int]) -> str:
    return ", ".join(str(size) for size in sorted(sizes))
