"""What the doctor says: errors of the model, deaths of child processes, what was assumed, and runtimes that could not be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paddleship.conversion.converting import Outcome
from paddleship.doctor import breaks, memory
from paddleship.doctor.breaks import Program
from paddleship.doctor.examination import RuntimeRow
from paddleship.doctor.habits import Checkup
from paddleship.doctor.source import FILLED_IN_LOOP, LEFT_BY_BREAK, Suspect
from paddleship.errors import BadInput, CandidateError
from paddleship.finding import Finding
from paddleship.params import Model
from paddleship.proof import evidence
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof

EAGER = "the eager model"  # as the process is called that is watched
_BREAK, _FILLED = "left by `break`", "a list that a loop fills"  # words of paddleship.doctor.breaks
_STATE = frozenset({"stale-tensor", "parameter-assignment", "global-state"})
_FACTS = frozenset({"program-departs", "wrong-answers"})  # that it is wrong, and not why
_OF_THE_WHOLE = frozenset({"unregistered-layer", "shared-name", "unused-input", "signature", "output-structure"})  # no line asks for them
_FREEZERS = (
    (
        "frozen-branch",
        "frozen-branch",
        "this is decided otherwise while the model is converted than in eager mode, and the program keeps that side",
        "do the same in both modes: a program is made of what forward does while it is converted",
    ),
    (
        "python-value",
        "frozen-value",
        "this value was read while converting, and the program keeps it for every question",
        breaks.ADVICE["python-value"],
    ),
)
_WHERE = re.compile(r" at (\S+:\d+)\)")
_UNKNOWN_OPERATOR = re.compile(
    r"(?:\[OP: |unsupported|not registered|no kernel|cannot find|\(Unimplemented|Can not get input|not support(?:ed)?\b).*", re.IGNORECASE
)


def errors(findings: Sequence[Finding]) -> bool:
    """Whether one of them is an error."""
    return any(finding.severity == "error" for finding in findings)


def bad(error: BadInput) -> Finding:
    """An exception of the user's model as a finding."""
    text = str(error)
    if isinstance(error, CandidateError):
        return death(error)
    where = _WHERE.search(text)
    return breaks.classify(text, text, where[1] if where else None, otherwise="bad-model")


def death(error: CandidateError) -> Finding:
    """A child that died or hung, or said something that nobody expected."""
    text = str(error)
    kind = "crash" if " died of " in text or " exited with " in text else "hang" if "did not answer" in text else "conversion-failed"
    where = _WHERE.search(text)
    own = text.startswith(EAGER)
    advice = (
        "build the model and call it in a Python of its own: neither may end it" if own else "look at the loops and operators of forward"
    )
    return Finding(kind, "error", text, advice if own else f"{advice}, or leave this runtime out", where[1] if where else None)


def placed(obstacle: Finding, suspects: Sequence[Suspect]) -> Finding:
    """An obstacle without a line, or with a caller's, at the only line that it can be."""
    breaks_off = _BREAK in obstacle.message and not any(suspect.where == obstacle.where for suspect in suspects)
    if (obstacle.where is not None and not breaks_off) or obstacle.kind in _OF_THE_WHOLE:
        return obstacle
    wanted: tuple[str, ...] = ("branch-mismatch", "python-value", "dynamic-shape-branch")
    for word, habit in ((_BREAK, LEFT_BY_BREAK), (_FILLED, FILLED_IN_LOOP)):
        wanted = (habit,) if word in obstacle.message else wanted
    for habit in wanted:
        lines = {suspect.where: suspect for suspect in suspects if suspect.habit == habit}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            kind = habit if obstacle.kind == "graph-break" and habit in breaks.ADVICE else obstacle.kind
            message = f"{obstacle.message}; it is this line: {suspect.text}"
            return replace(obstacle, kind=kind, where=where, message=message, advice=breaks.ADVICE.get(kind, obstacle.advice))
    return obstacle


def unused(name: str, where: str | None, grave: bool) -> Finding:
    message = f"input {name!r} has no influence on any output" + (", and Paddle refuses to export it" if grave else " that was seen")
    return Finding("unused-input", "error" if grave else "warning", message, "remove it from the inputs and from forward, or use it", where)


def refusals(checkup: Checkup) -> list[Finding]:
    """Sizes that the eager model itself does not take."""
    return [
        Finding("bad-model", "note", f"eager does not take {name}: {words}", "declare a size as a number where only one works")
        for name, words in list(checkup.refused.items())[:1]
    ]


def nothing_finite(checkup: Checkup) -> list[Finding]:
    """Answers with which no runtime can be compared."""
    said = evidence.nothing_finite(list(checkup.answers.values())) if checkup.answers else ""
    message, _, advice = said.partition(": ")
    return [Finding("bad-model", "error", message, advice, checkup.forward)] if said else []


def assumptions(model: Model) -> list[Finding]:
    """What nobody declared and was therefore chosen."""
    return [
        Finding(
            "assumed-range",
            "note",
            f"input {item.name!r} has no declared range of values: only {item.low or 0:g} and {(item.low or 0) + 1:g} were tried",
            f"declare it: --input '{item.name}:{item.dtype}[…]=0..99', or low and high in params.yaml",
        )
        for item in model.inputs
        if item.dtype.startswith("int") and item.high is None
    ]


def structure(program: Program) -> list[Finding]:
    """Outputs that the program cannot say as eager does; the candidate records how to give them back."""
    sources = program[1]
    passed = [f"{name!r} is the input {source!r}" for name, source in sources.items() if isinstance(source, str)]
    places = [source for source in sources.values() if isinstance(source, int)]
    twice = [f"{name!r} repeats another output" for name, source in sources.items() if isinstance(source, int) and places.count(source) > 1]
    if not passed and not twice:
        return []
    words = ", ".join([*passed, *twice[1:]])
    return [
        Finding(
            "output-structure",
            "note",
            f"a program leaves out what is no result of its own ({words}): candidate.json says how to put it back",
        )
    ]


def row(outcome: Outcome, proved: Proof) -> RuntimeRow:
    if not outcome.made:
        return RuntimeRow("not made", outcome.reason)
    judgement = proved.judgements[outcome.name]
    ratio = judgement.metrics.get("noise_ratio")
    return RuntimeRow("proven", noise_ratio=ratio) if judgement else RuntimeRow("failed", _failed(judgement), ratio)


def _failed(judgement: Judgement) -> str:
    return next((str(check.model_copy(update={"advice": ""})) for check in judgement.checks if not check.passed), "")


def known(judgement: Judgement, suspects: Sequence[Suspect]) -> Finding | None:
    """What a runtime said when it failed, where Paddle's words are known."""
    said = next((str(check.measured) for check in judgement.checks if not check.passed and check.name == "answers"), "")
    found = breaks.classify(said, said, None, otherwise="wrong-answers")
    return None if found.kind == "wrong-answers" else placed(found, suspects)


def not_made(outcome: Outcome, suspects: Sequence[Suspect]) -> Finding:
    """Why a runtime could not be made: an operator it does not know, or how its process ended."""
    advice = "leave this runtime out of optimize.candidates, or use another operator in its place"
    known = breaks.classify(outcome.reason, outcome.reason, None, otherwise="conversion-failed")
    if known.kind != "conversion-failed":
        return placed(known, suspects)
    found = death(CandidateError(outcome.reason))
    if words := _UNKNOWN_OPERATOR.search(outcome.reason):
        return Finding("unsupported-operator", "warning", f"{outcome.name} cannot be made: {words[0]}", advice, found.where)
    return Finding(found.kind, "warning", f"{outcome.name} cannot be made: {outcome.reason}", advice, found.where)


def frozen(suspects: Sequence[Suspect]) -> list[Finding]:
    """What a program that is wrong from the beginning may have kept, where only one line can have done it."""
    for habit, kind, words, advice in _FREEZERS:
        lines = {suspect.where: suspect for suspect in suspects if suspect.habit == habit}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            return [Finding(kind, "error", f"{words} ({suspect.text})", advice, where)]
    return []


def causes(findings: Sequence[Finding], *, seen: Sequence[Finding] = ()) -> list[Finding]:
    """The findings, without the bare fact that the program departs where another error says why.

    `seen` was found in the eager model: where its forward changes state, what the program kept of it looks like other weights.
    """
    if any(item.kind in _STATE for item in seen):
        findings = [item for item in findings if item.kind != "weights-differ"]
    told = any(item.severity == "error" and item.kind not in _FACTS for item in findings)
    return [item for item in findings if not (told and item.kind == "program-departs")]


def graver(findings: Sequence[Finding], rows: Mapping[str, RuntimeRow]) -> list[Finding]:
    """State that forward changes is an error after all where no runtime answers rightly."""
    if any(row.status == "proven" for row in rows.values()):
        return list(findings)
    return [_grave(item) if item.kind in _STATE and item.severity != "error" else item for item in findings]


def _grave(finding: Finding) -> Finding:
    message = finding.message.replace(memory.HARMLESS, "the program keeps the one that it was made with")
    return replace(finding, severity="error", message=message)
