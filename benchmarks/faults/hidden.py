"""Models with hidden influences: no export can be right, so the model itself must be refused, for the right reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from benchmarks.faults.forge import HONEST, RANDOM_INPUT, Outcome
from paddleship.model.eager import SourceModel
from paddleship.proof.evidence import Evidence
from paddleship.proof.hidden_influences import influences
from paddleship.proof.hidden_influences.influences import Cause

HIDDEN = {
    "the model reads the clock": ("clock", Cause.CLOCK),
    "the model reads an environment variable": ("environment", Cause.ENVIRONMENT),
    "the model counts its questions": ("count", Cause.HISTORY),
}
_TIMEOUT_S = 120


def ask(name: str, source_model: SourceModel, evidence: Evidence, elsewhere: Collection[str] = ()) -> list[Outcome]:
    """The results for the model `name` unchanged, and with each hidden influence except those `elsewhere`.

    A refusal counts only with the right cause.
    """
    outcomes = [_outcome(HONEST, name, evidence, *_errors(source_model, evidence, tuple(Cause)))]
    for kind, (change, cause) in ((kind, hidden) for kind, hidden in HIDDEN.items() if kind not in elsewhere):
        changed = replace(
            source_model, model=source_model.model.model_copy(update={"kwargs": {**source_model.model.kwargs, "change": change}})
        )
        outcomes.append(_outcome(kind, name, evidence, *_errors(changed, evidence, (cause,))))
    return outcomes


def _errors(source_model: SourceModel, evidence: Evidence, causes: Sequence[Cause]) -> tuple[bool, str]:
    """Whether one of these causes was found, and the messages."""
    found = influences.find(source_model, evidence, timeout_s=_TIMEOUT_S)
    return any(cause in causes for cause in found.causes), "; ".join(finding.message for finding in found.findings)


def _outcome(kind: str, name: str, evidence: Evidence, refused: bool, why: str) -> Outcome:
    """The result of usual checks, with which the model agrees with itself."""
    place = next(place for place, case in enumerate(evidence.cases) if case.name == RANDOM_INPUT)
    answer = evidence.reference[place]
    change = 0.0 if kind == HONEST else float("inf")
    return Outcome(kind, name, "eager", refused, refused, why, change, 0.0, 0.0, 0.0, (answer, answer))
