"""What the doctor says: errors of the model, deaths of child processes, what was assumed, and runtimes that could not be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paddleship.config.params import Input, Model
from paddleship.conversion.converting import Outcome
from paddleship.conversion.exporting import Saved
from paddleship.doctor import asking, graph_breaks
from paddleship.doctor.ast_lint import LEFT_BY_BREAK, Suspect
from paddleship.doctor.eager_probe import ProbeResult
from paddleship.doctor.examination import LATE, OUT_OF_TIME, RuntimeRow
from paddleship.doctor.graph_breaks import Obstacle
from paddleship.errors import BadInput, CandidateError, OutputError
from paddleship.proof import evidence
from paddleship.proof.inputs import Case
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof
from paddleship.reports.finding import Finding

_STATE = frozenset({"stale-tensor", "parameter-assignment", "global-state"})
_MAYBE = _STATE | {"train-mode"}  # does harm or none, which the answers show
_UNEXPLAINED = frozenset({"global-state", "random-forward"})  # where no line is named
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
        graph_breaks.ADVICE["python-value"],
    ),
)
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
        return Finding(error.kind, "error", text, "build the model and call it in a Python of its own: neither may end it", error.where)
    if isinstance(error, OutputError):
        return graph_breaks.outputs(error).plain()
    return graph_breaks.classify(text, text, error.where, otherwise="bad-model").plain()


def crash(error: CandidateError) -> Obstacle:
    """A conversion that died or hung, or said something that nobody expected."""
    return Obstacle(error.kind, "error", str(error), "look at the loops and operators of forward", error.where)


def placed(obstacle: Obstacle, suspects: Sequence[Suspect]) -> Finding:
    """An obstacle without a line, or with a caller's, at the only line that it can be."""
    breaks_off = obstacle.pattern == LEFT_BY_BREAK and not any(suspect.where == obstacle.where for suspect in suspects)
    if (obstacle.where is not None and not breaks_off) or obstacle.kind in _OF_THE_WHOLE:
        return obstacle.plain()
    wanted = (obstacle.pattern,) if obstacle.pattern else ("branch-mismatch", "python-value", "dynamic-shape-branch")
    for pattern in wanted:
        lines = {suspect.where: suspect for suspect in suspects if suspect.pattern == pattern}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            kind = pattern if obstacle.kind == "graph-break" and pattern in graph_breaks.ADVICE else obstacle.kind
            message = f"{obstacle.message}; it is this line: {suspect.text}"
            return obstacle.plain(kind=kind, where=where, message=message, advice=graph_breaks.ADVICE.get(kind, obstacle.advice))
    return obstacle.plain()


def unused(name: str, where: str | None, grave: bool) -> Finding:
    message = f"input {name!r} has no influence on any output" + (", and Paddle refuses to export it" if grave else " that was seen")
    return Finding("unused-input", "error" if grave else "warning", message, "remove it from the inputs and from forward, or use it", where)


def influence_unknown(name: str) -> Finding:
    """An input whose only value says nothing of its influence."""
    message = f"whether input {name!r} influences any output is unknown: it was always the same"
    return Finding("unused-input", "note", message, "declare a range of values where it may have others")


def skipped_slow(probed: ProbeResult) -> list[Finding]:
    """What was not asked because the model is slow."""
    message = f"one row takes eager long, so these were not asked: {_several(probed.skipped_slow)}"
    return [Finding(OUT_OF_TIME, "note", message, "raise --seconds to have them asked")] if probed.skipped_slow else []


def refusals(probed: ProbeResult, cases: Sequence[Case], model: Model) -> list[Finding]:
    """Inputs that the eager model itself does not take or survive, which are left out of the rest."""
    found = []
    if probed.refused:
        name, words = next(iter(probed.refused.items()))
        message = f"eager does not take {_several(list(probed.refused))}, left out here. Of {name} it says: {words}"
        found.append(Finding("bad-model", "note", message, "declare a size as a number where only one works"))
    if probed.crashes:
        name, end = next(iter(probed.crashes.items()))
        message = f"eager does not survive {_several(list(probed.crashes))}, left out here. Of {name} ({_inputs(cases, name)}) {end}"
        if probed.skipped_after_crashes:
            message += f"; after so many ends these were not asked: {_several(probed.skipped_after_crashes)}"
        found.append(Finding("crash", "warning", message, survival(model), end.where))
    return found


def killed(error: asking.NotSurvivedError, model: Model) -> Finding:
    """An eager model that survives no case."""
    message = f"eager survives none of the inputs that were drawn. Asked {error.case.name} ({asking.show(error.case.inputs)}), {error}"
    return Finding(error.end.kind, "error", message, survival(model), error.where)


def survival(model: Model) -> str:
    """What to declare of a model that dies of its inputs."""
    bounded = asking.bounded(model)
    changed = [item for item, old in zip(bounded.inputs, model.inputs, strict=True) if item != old] if bounded is not None else []
    if changed:
        return f"if {changed[0].name!r} holds lengths, declare that: --input '{_declared(changed[0])}'"
    return (
        "call the model on these inputs in a Python of its own, and declare the values that it takes: --input 'NAME:DTYPE[DIM,…]=LOW..HIGH'"
    )


def lengths(old: Model, new: Model, before: ProbeResult | BadInput, cases: Sequence[Case]) -> list[Finding]:
    """That inputs were taken for lengths, and what happened in the `cases` in which they were not."""
    why = _first_failure(before, cases)
    return [
        Finding(
            "assumed-range",
            "note",
            f"input {item.name!r} was taken for lengths, at most the size of {item.high!r}: with other values eager fails: {why}",
            f"declare it: --input '{_declared(item)}'",
        )
        for item, other in zip(new.inputs, old.inputs, strict=True)
        if item != other
    ]


def _first_failure(probed: ProbeResult | BadInput, cases: Sequence[Case]) -> str:
    if isinstance(probed, asking.NotSurvivedError):
        return f"asked {asking.show(probed.case.inputs)}, {probed}"
    if isinstance(probed, BadInput):
        return str(probed)
    name, words = next(iter([*probed.crashes.items(), *probed.refused.items()]))
    return f"asked {_inputs(cases, name)}, {words}"


def _declared(item: Input) -> str:
    """An input as the command line takes it."""
    low = f"{item.low:g}" if isinstance(item.low, float) else item.low
    return f"{item.name}:{item.dtype}[{','.join(map(str, item.shape))}]={low}..{item.high}"


def unfinished(doing: str, seconds: float, rows: Mapping[str, RuntimeRow], *, judged: bool) -> Finding:
    """That the time was over: an error where no runtime is proven, a warning where others were not judged."""
    if judged:
        message = f"the search for causes ended after {seconds:g} s ({doing}); the runtimes were judged before"
        return Finding(OUT_OF_TIME, "note", message, "raise --seconds for more of it")
    late = ", ".join(name for name, row in rows.items() if row.status == LATE)
    message = f"the examination ended after {seconds:g} s ({doing})" + (f"; not judged: {late}" if late else "")
    return Finding(OUT_OF_TIME, "warning" if proven(rows) else "error", message, "raise --seconds, or declare smaller inputs")


def proven(rows: Mapping[str, RuntimeRow]) -> bool:
    """Whether one runtime answered as eager does in all that was asked."""
    return any(row.status in ("proven", "not exercised") for row in rows.values())


def late(rows: Mapping[str, RuntimeRow]) -> dict[str, RuntimeRow]:
    """The rows when the time is over: what was not tried by then was not judged in time."""
    return {name: RuntimeRow(LATE) if row.status == "not tried" else row for name, row in rows.items()}


def _several(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _inputs(cases: Sequence[Case], name: str) -> str:
    return asking.show(next(case.inputs for case in cases if case.name == name))


def nothing_finite(probed: ProbeResult) -> list[Finding]:
    """Answers with which no runtime can be compared."""
    said = evidence.nothing_finite(list(probed.answers.values())) if probed.answers else ""
    message, _, advice = said.partition(": ")
    return [Finding("bad-model", "error", message, advice, probed.forward)] if said else []


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
        if item.dtype.startswith("int") and item.high is None and not isinstance(item.low, str)
    ]


def structure(program: Saved) -> list[Finding]:
    """Outputs that the program cannot say as eager does; the candidate records how to give them back."""
    sources = program.sources
    passed = [f"{name!r} is the input {source!r}" for name, source in sources.items() if isinstance(source, str)]
    places = [source for source in sources.values() if isinstance(source, int)]
    twice = [f"{name!r} repeats another output" for name, source in sources.items() if isinstance(source, int) and places.count(source) > 1]
    fixed = [f"{name!r} is always {value!r}" for name, value in program.constants.items()]
    if not passed and not twice and not fixed:
        return []
    words = ", ".join([*passed, *twice[1:], *fixed])
    return [
        Finding(
            "output-structure",
            "note",
            f"a program leaves out what is not its own result ({words}): candidate.json records it",
        )
    ]


def unproven(findings: Sequence[Finding]) -> list[Finding]:
    """What the proof found of eager and the judge: an output that was not exercised is no fault of the model, and so a warning here."""
    return [replace(item, severity="warning") if item.kind == "not-exercised" else item for item in findings]


def row(outcome: Outcome, proved: Proof) -> RuntimeRow:
    if not outcome.made:
        return RuntimeRow("not made", outcome.reason)
    if outcome.name not in proved.judgements:
        return RuntimeRow(LATE)
    judgement = proved.judgements[outcome.name]
    ratio = judgement.metrics.get("noise_ratio")
    if not judgement:
        return RuntimeRow("failed", _failed(judgement), ratio)
    if proved.sound:
        return RuntimeRow("proven", noise_ratio=ratio)
    reason = next(finding for finding in proved.findings if finding.severity == "error")
    return RuntimeRow("not exercised" if reason.kind == "not-exercised" else "failed", reason.message)


def _failed(judgement: Judgement) -> str:
    return next((str(check.model_copy(update={"advice": ""})) for check in judgement.checks if not check.passed), "")


def known(judgement: Judgement, suspects: Sequence[Suspect]) -> Finding | None:
    """What a runtime said when it failed, where Paddle's words are known."""
    said = next((str(check.measured) for check in judgement.checks if not check.passed and check.name == "answers"), "")
    found = graph_breaks.classify(said, said, None, otherwise="wrong-answers")
    return None if found.kind == "wrong-answers" else placed(found, suspects)


def not_made(outcome: Outcome, suspects: Sequence[Suspect]) -> Finding:
    """Why a runtime could not be made: an operator it does not know, or how its process ended."""
    advice = "leave this runtime out of optimize.candidates, or use another operator in its place"
    obstacle = graph_breaks.classify(outcome.reason, outcome.reason, None, otherwise="conversion-failed")
    if obstacle.kind != "conversion-failed":
        return placed(obstacle, suspects)
    if words := operator(outcome):
        return Finding("unsupported-operator", "warning", f"{outcome.name} cannot be made: {words}", advice)
    return Finding(outcome.kind, "warning", f"{outcome.name} cannot be made: {outcome.reason}", advice)


def operator(outcome: Outcome) -> str:
    """What a runtime said of an operator that it does not know; nothing where it failed in another way."""
    found = _UNKNOWN_OPERATOR.search(outcome.reason)
    return found[0] if found else ""


def frozen(suspects: Sequence[Suspect]) -> list[Finding]:
    """What a program that is wrong from the beginning may have kept, where only one line can have done it."""
    for pattern, kind, words, advice in _FREEZERS:
        lines = {suspect.where: suspect for suspect in suspects if suspect.pattern == pattern}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            return [Finding(kind, "error", f"{words} ({suspect.text})", advice, where)]
    return []


def unexplained(findings: Sequence[Finding]) -> bool:
    """Whether eager's own answers were seen to change for a reason that no line shows."""
    return any(_without_cause(item) for item in findings)


def influenced(findings: Sequence[Finding], hidden: Sequence[Finding]) -> list[Finding]:
    """Both, without those that say that answers change where a hidden influence says why."""
    return [*(item for item in findings if not (errors(hidden) and _without_cause(item))), *hidden]


def distrusted(rows: Mapping[str, RuntimeRow], hidden: Sequence[Finding]) -> dict[str, RuntimeRow]:
    """The rows; what was proven is not, where eager itself answers differently in other circumstances."""
    reason = next((item.message for item in hidden if item.severity == "error"), None)
    return {name: row if reason is None or row.status != "proven" else RuntimeRow("failed", reason) for name, row in rows.items()}


def _without_cause(finding: Finding) -> bool:
    return finding.kind in _UNEXPLAINED and finding.severity == "error" and finding.where is None


def causes(findings: Sequence[Finding], *, seen: Sequence[Finding] = ()) -> list[Finding]:
    """The findings, without the bare fact that the program departs where another error says why.

    `seen` was found in the eager model: where its forward changes state, what the program kept of it looks like other weights.
    """
    if any(item.kind in _STATE for item in seen):
        findings = [item for item in findings if item.kind != "weights-differ"]
    explained = any(item.severity == "error" and item.kind not in _FACTS for item in findings)
    return [item for item in findings if not (explained and item.kind == "program-departs")]


def judged(findings: Sequence[Finding], rows: Mapping[str, RuntimeRow]) -> list[Finding]:
    """State that forward changes, and layers in train mode, are errors after all where no runtime answers rightly."""
    if any(row.status == "proven" for row in rows.values()):
        return list(findings)
    return [_grave(item) if item.kind in _MAYBE and item.severity != "error" else item for item in findings]


def _grave(finding: Finding) -> Finding:
    return replace(finding, severity="error", message=f"{finding.message}: the program keeps what it was made with")
