"""The doctor's findings: errors of the model, crashes, assumptions, and runtimes that could not be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paddleship.config.sections.model import Input, Model
from paddleship.conversion.converting import ConversionResult
from paddleship.conversion.exporting import RankError, SavedProgram
from paddleship.doctor import ast_lint, case_runner, graph_breaks
from paddleship.doctor.ast_lint import LEFT_BY_BREAK, Suspect
from paddleship.doctor.eager_probe import ProbeResult
from paddleship.doctor.examination import OUT_OF_TIME, RuntimeRow
from paddleship.doctor.obstacle import Obstacle
from paddleship.errors import BadInput, CandidateError, OutputError, ProcessDied, ProcessHung
from paddleship.proof import evidence
from paddleship.proof.cases.inputs import Case
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof
from paddleship.proof.reference import TO_STATIC
from paddleship.reports.finding import Finding
from paddleship.reports.statuses import Status

_STATE = frozenset({"stale-tensor", "parameter-assignment", "global-state"})
_MAYBE = _STATE | {"train-mode"}  # harmful or not, which the answers show
_UNEXPLAINED = frozenset({"global-state", "random-forward"})  # if no line is named
_FACTS = frozenset({"program-departs", "wrong-answers"})  # they report an error, not its cause
_OF_THE_WHOLE = frozenset({"unregistered-layer", "shared-name", "unused-input", "signature", "output-structure"})  # no line is the cause
_FREEZERS = (
    (
        "frozen-branch",
        "frozen-branch",
        "conversion takes another side of this condition than eager mode, and the program keeps that side",
        "take the same side in both modes: the program holds what forward does during conversion",
    ),
    (
        "python-value",
        "frozen-value",
        "this value was read during conversion, and the program uses it for every input",
        graph_breaks.ADVICE["python-value"],
    ),
)
_CRASHED = "replace this call by others, and create tensors, distributions and layers that it uses in forward, or register them"
_ANOTHER_RUNTIME = "ship another runtime (in params.yaml: optimize.candidates)"
_REPORT = "report this message to the runtime"
_FAILURES = {Status.NOT_MADE: "conversion-failed", Status.FAILED: "wrong-answers"}
_TOO_LATE = "the eager model, which is slow or hangs, did not answer in time on"
_RANGE = "--input 'NAME:DTYPE[DIM,…]=LOW..HIGH'"
_VALID = f"declare what the model takes: values ({_RANGE}), sizes (--dimension 'NAME=LOW..HIGH'), or a number if only one size works"
_ADVICE = {
    "not-exercised": f"give trained weights (--checkpoint), or declare a range with which it varies ({_RANGE})",
    "uncovered-branch": f"declare values or sizes that take it, if it can be taken ({_RANGE}, --dimension 'NAME=LOW..HIGH')",
    "batch-dependent": "if its first dimension counts no rows (the steps of one sequence), give forward a batch, [batch, length]; else "
    "mask the padding, and use no batch statistics in evaluation mode",
    "weights-differ": "use each weight as state_dict() holds it: change none in forward, and derive none from another",
}  # of findings whose own advice names rows, params or stages, which a model that is only examined does not have
_OPERATORS = re.compile(r"\[OP: ([\w, ]+)\]")
_UNKNOWN_OPERATOR = re.compile(
    r"(?:\[OP: |unsupported|not registered|no kernel|cannot find|\(Unimplemented|Can not get input|not support(?:ed)?\b).*", re.IGNORECASE
)


def errors(findings: Sequence[Finding]) -> bool:
    """Whether one of them is an error."""
    return any(finding.severity == "error" for finding in findings)


def bad(error: BadInput, *, converted: bool = False) -> Finding:
    """An exception of the user's model as a finding; `converted`: the model is a program by now, so that its eager form is not at fault."""
    text = str(error)
    if isinstance(error, ProcessDied | ProcessHung):
        return Finding(error.kind, "error", text, "build and call the model in a separate Python process to see why it exits", error.where)
    if isinstance(error, CandidateError):
        kind, message = (error.kind, text) if converted else ("bad-model", f"the model's own code raised {text}")
        return Finding(
            kind, "error", message, "fix it: build the model, and call its eval(), state_dict() and forward by hand", error.where
        )
    if isinstance(error, OutputError):
        return graph_breaks.outputs(error).plain()
    if isinstance(error, RankError):
        return Finding("output-structure", "error", str(error).removesuffix(f": {error.advice}"), error.advice, error.where)
    return graph_breaks.classify(text, text, error.where, otherwise="bad-model").plain()


def slow_conversion(error: ProcessHung) -> Obstacle:
    """A conversion that did not end in time: nothing is known about the model by then."""
    message = f"the conversion did not end in {error.seconds:g} s: forward is long, or a loop in it never ends while it is converted"
    return Obstacle(OUT_OF_TIME, "error", message, "raise --seconds; if that does not help, look at the loops of forward", error.where)


def crash(error: CandidateError) -> Obstacle:
    """A conversion that crashed or failed with an unknown error; a crash has the line of forward that ran then, if one did."""
    if error.where is None:
        return Obstacle(error.kind, "error", str(error), "check the loops and operators of forward")
    message = f"{error}; the line: {ast_lint.text(error.where)}"
    return Obstacle(error.kind, "error", message, _CRASHED, error.where)


def located(obstacle: Obstacle, suspects: Sequence[Suspect]) -> Finding:
    """Locate an obstacle without a line (or with its caller's line) if only one line can be the cause, and the error agrees."""
    breaks_off = obstacle.pattern == LEFT_BY_BREAK and not any(suspect.where == obstacle.where for suspect in suspects)
    if (obstacle.where is not None and not breaks_off) or obstacle.kind in _OF_THE_WHOLE:
        return obstacle.plain()
    wanted = (obstacle.pattern,) if obstacle.pattern else ("branch-mismatch", "python-value", "dynamic-shape-branch")
    for pattern in wanted:
        if not obstacle.pattern and not graph_breaks.agrees(pattern, obstacle.message):
            continue  # the error is about something else
        lines = {suspect.where: suspect for suspect in suspects if suspect.pattern == pattern}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            kind = pattern if obstacle.kind == "graph-break" and pattern in graph_breaks.ADVICE else obstacle.kind
            message = f"{obstacle.message}; the line: {suspect.text}"
            return obstacle.plain(kind=kind, where=where, message=message, advice=graph_breaks.ADVICE.get(kind, obstacle.advice))
    return obstacle.plain()


def size_only(name: str, where: str | None) -> Finding:
    """An input whose values are never read, and whose size is."""
    message = f"only the size of input {name!r} affects the outputs: the program does not read its values"
    return Finding("unused-input", "note", message, "send any values of that size", where)


def unused(name: str, where: str | None, *, grave: bool, alone: bool) -> Finding:
    """An input whose values change nothing. `grave`: Paddle refuses to export such an input, without its name; this one if `alone`."""
    refused = "Paddle refuses to export it" if alone else "Paddle refuses to export a model with an input that it does not need"
    unnamed = "" if alone else "; Paddle's error does not name the input, and an input whose size is used can stay"
    effect = f", and {refused}{unnamed}" if grave else " in the cases that were run"
    message = f"the values of input {name!r} do not affect any output{effect}"
    advice = "remove it from the inputs and from forward, or use it" + ("" if grave and alone else "; keep it if its size matters")
    return Finding("unused-input", "error" if grave else "warning", message, advice, where)


def influence_unknown(name: str) -> Finding:
    """An input that had one value only, so that its effect is unknown."""
    message = f"unknown whether input {name!r} affects any output: its value was the same in every case"
    return Finding("unused-input", "note", message, "declare a range if it can take other values")


def skipped_slow(probed: ProbeResult) -> list[Finding]:
    """Cases that were skipped because the model is slow."""
    message = f"the eager model is slow, so these cases were skipped: {_several(probed.skipped_slow)}"
    return [Finding(OUT_OF_TIME, "note", message, "raise --seconds to run them")] if probed.skipped_slow else []


def refusals(probed: ProbeResult, cases: Sequence[Case], model: Model) -> list[Finding]:
    """Inputs that the eager model rejects or crashes on; later steps skip them."""
    findings = []
    known = {finding.message for finding in probed.findings}
    if refused := {name: error for name, error in probed.refused.items() if error not in known}:
        name, error = next(iter(refused.items()))
        message = f"the eager model rejects {_several(list(refused))}; these cases are skipped. Error for {name!r}: {error}"
        findings.append(Finding("bad-model", "note", message, _VALID))
    died = {name: end for name, end in probed.crashes.items() if isinstance(end, ProcessDied)}
    late = {name: end for name, end in probed.crashes.items() if name not in died}
    skipped = f"; skipped after that: {_several(probed.skipped_after_crashes)}" if probed.skipped_after_crashes else ""
    if died:
        message = f"the eager model crashes on {_ends(died, cases)}{skipped}"
        findings.append(Finding("crash", "warning", message, survival(model), next(iter(died.values())).where))
    if late:
        advice = f"raise --seconds; if it never ends: {survival(model)}"
        findings.append(Finding(OUT_OF_TIME, "warning", f"{_TOO_LATE} {_ends(late, cases)}{skipped}", advice))
    return findings


def _ends(ends: Mapping[str, ProcessDied | ProcessHung], cases: Sequence[Case]) -> str:
    name, end = next(iter(ends.items()))
    return f"{_several(list(ends))}; these cases are skipped. For {name!r} ({_inputs(cases, name)}): {end}"


def killed(error: case_runner.NotSurvivedError, model: Model) -> Finding:
    """An eager model that crashes on every case, or answers none in time."""
    if isinstance(error.end, ProcessHung):
        message = f"{_TOO_LATE} any of the generated inputs. For {error.case.name} ({case_runner.show(error.case.inputs)}): {error}"
        return Finding(OUT_OF_TIME, "error", message, f"raise --seconds; if it never ends: {survival(model)}", error.where)
    message = f"the eager model crashes on all generated inputs. For {error.case.name} ({case_runner.show(error.case.inputs)}): {error}"
    return Finding(error.end.kind, "error", message, survival(model), error.where)


def survival(model: Model) -> str:
    """What to declare for a model that crashes on its inputs."""
    bounded = case_runner.bounded(model)
    changed = [item for item, old in zip(bounded.inputs, model.inputs, strict=True) if item != old] if bounded is not None else []
    if changed:
        return f"if {changed[0].name!r} holds lengths, declare it: --input '{_declared(changed[0])}'"
    return f"call the model on these inputs in a separate Python process, and declare valid values: {_RANGE}"


def lengths(old: Model, new: Model, before: ProbeResult | BadInput, cases: Sequence[Case]) -> list[Finding]:
    """Inputs that were assumed to hold lengths, with the failure in `cases` without that assumption."""
    why = _first_failure(before, cases)
    return [
        Finding(
            "assumed-range",
            "note",
            f"input {item.name!r} was assumed to hold lengths up to the size of {item.high!r}, because the eager model fails with other "
            f"values: {why}",
            f"declare it: --input '{_declared(item)}'",
        )
        for item, other in zip(new.inputs, old.inputs, strict=True)
        if item != other
    ]


def _first_failure(probed: ProbeResult | BadInput, cases: Sequence[Case]) -> str:
    if isinstance(probed, case_runner.NotSurvivedError):
        return f"for {case_runner.show(probed.case.inputs)}: {probed}"
    if isinstance(probed, BadInput):
        return str(probed)
    name, error = next(iter([*probed.crashes.items(), *probed.refused.items()]))
    return f"for {_inputs(cases, name)}: {error}"


def _declared(item: Input) -> str:
    """An input as the command line takes it."""
    low = f"{item.low:g}" if isinstance(item.low, float) else item.low
    return f"{item.name}:{item.dtype}[{','.join(map(str, item.shape))}]={low}..{item.high}"


def unfinished(doing: str, seconds: float, rows: Mapping[str, RuntimeRow], *, judged: bool) -> Finding:
    """A timeout: an error if no runtime is proven, a warning if some runtimes were not compared."""
    if judged:
        compared = any(row.status not in (Status.NOT_TRIED, Status.LATE) for row in rows.values())
        before = "; all runtimes were compared before" if compared else ""
        message = f"the search for causes stopped after {seconds:g} s ({doing}){before}"
        return Finding(OUT_OF_TIME, "note", message, "raise --seconds to continue it")
    late = ", ".join(name for name, row in rows.items() if row.status == Status.LATE)
    message = f"the examination stopped after {seconds:g} s ({doing})" + (f"; not compared: {late}" if late else "")
    return Finding(OUT_OF_TIME, "warning" if proven(rows) else "error", message, "raise --seconds, or declare smaller inputs")


def proven(rows: Mapping[str, RuntimeRow]) -> bool:
    """Whether one runtime is proven."""
    return any(row.status in (Status.PROVEN, Status.NOT_EXERCISED) for row in rows.values())


def late(rows: Mapping[str, RuntimeRow]) -> dict[str, RuntimeRow]:
    """The rows at a timeout: runtimes that were not tried by then were not judged in time."""
    return {name: RuntimeRow(Status.LATE) if row.status == Status.NOT_TRIED else row for name, row in rows.items()}


def _several(names: Sequence[str]) -> str:
    """The first of these cases, in quotes because their names may hold commas."""
    return ", ".join(map(repr, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _inputs(cases: Sequence[Case], name: str) -> str:
    return case_runner.show(next(case.inputs for case in cases if case.name == name))


def nothing_finite(probed: ProbeResult) -> list[Finding]:
    """Answers without a finite number, which cannot be compared."""
    text = evidence.nothing_finite(list(probed.answers.values())) if probed.answers else ""
    message, _, advice = text.partition(": ")
    return [Finding("bad-model", "error", message, advice, probed.forward)] if text else []


def assumptions(model: Model) -> list[Finding]:
    """Ranges that were not declared and therefore assumed."""
    return [
        Finding(
            "assumed-range",
            "note",
            f"input {item.name!r} has no declared range: only the values {item.low or 0:g} and {(item.low or 0) + 1:g} were tried",
            f"declare it: --input '{item.name}:{item.dtype}[…]=LOW..HIGH', or low and high in params.yaml",
        )
        for item in model.inputs
        if item.dtype.startswith("int") and item.high is None and not isinstance(item.low, str)
    ]


def structure(program: SavedProgram) -> list[Finding]:
    """Outputs that the program does not return itself; the candidate records how to restore them."""
    sources = program.sources
    passed = [f"{name!r} is the input {source!r}" for name, source in sources.items() if isinstance(source, str)]
    indices = [source for source in sources.values() if isinstance(source, int)]
    twice = [
        f"{name!r} repeats another output" for name, source in sources.items() if isinstance(source, int) and indices.count(source) > 1
    ]
    fixed = [f"{name!r} is always {value!r}" for name, value in program.constants.items()]
    if not passed and not twice and not fixed:
        return []
    details = ", ".join([*passed, *twice[1:], *fixed])
    return [
        Finding(
            "output-structure",
            "note",
            f"the program does not return everything that forward returns ({details}); candidate.json records how to restore it",
        )
    ]


def unproven(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of the proof; an output that is not exercised is a warning here, because it is not an error of the model."""
    return [replace(item, severity="warning") if item.kind == "not-exercised" else item for item in findings]


def advised(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with advice that can be followed with the doctor's own options."""
    return [replace(item, advice=_ADVICE.get(item.kind, item.advice)) for item in findings]


def row(outcome: ConversionResult, proved: Proof) -> RuntimeRow:
    if not outcome.made:
        return RuntimeRow(Status.NOT_MADE, outcome.reason)
    if outcome.name not in proved.judgements:
        return RuntimeRow(Status.LATE)
    judgement = proved.judgements[outcome.name]
    ratio = judgement.metrics.get("noise_ratio")
    if not judgement:
        return RuntimeRow(Status.FAILED, _failed(judgement), ratio)
    if proved.sound:
        return RuntimeRow(Status.PROVEN, noise_ratio=ratio)
    reason = next(finding for finding in proved.findings if finding.severity == "error")
    return RuntimeRow(Status.NOT_EXERCISED if reason.kind == "not-exercised" else Status.FAILED, reason.message)


def _failed(judgement: Judgement) -> str:
    return next((str(check.model_copy(update={"advice": ""})) for check in judgement.checks if not check.passed), "")


def raised(proved: Proof, suspects: Sequence[Suspect]) -> Finding | None:
    """The error that Paddle raised in `to_static`, if its wording is known, or if the runtimes are right.

    With a known wording, the runtimes fail because of it, each with its own message.
    """
    static = proved.judgements[TO_STATIC]
    others = [judgement for name, judgement in proved.judgements.items() if name != TO_STATIC]
    right = bool(others) and all(others)
    if (found := known(static, suspects)) or not right or proved.answers[TO_STATIC] is not None:
        return found
    message = f"to_static in one process with the eager model gives no answer, although the runtimes are right: {_error(static)}"
    return Finding("wrong-answers", "error", message, "no action is needed to ship a proven runtime")


def _error(judgement: Judgement) -> str:
    return next((str(check.measured) for check in judgement.checks if not check.passed and check.name == "answers"), "")


def known(judgement: Judgement, suspects: Sequence[Suspect]) -> Finding | None:
    """The finding for a runtime's error message, if Paddle's wording is known."""
    error = _error(judgement)
    obstacle = graph_breaks.classify(error, error, None, otherwise="wrong-answers")
    return None if obstacle.kind == "wrong-answers" else located(obstacle, suspects)


def unexplained_runtimes(
    rows: Mapping[str, RuntimeRow], explained: Mapping[str, Sequence[Finding]], findings: Sequence[Finding]
) -> list[Finding]:
    """A note on each runtime that failed and that no finding in the list is about: the findings on the program are not by runtime."""
    reported = {finding.message for finding in findings}
    advice = "fix the errors above first" if errors(findings) else ""
    notes = []
    for name, row in rows.items():
        kind = _FAILURES.get(row.status)
        if kind and row.reason not in reported and not any(finding.message in reported for finding in explained.get(name, ())):
            why = "cannot be made" if row.status == Status.NOT_MADE else "is not proven"
            notes.append(Finding(kind, "note", f"{name} {why}: {row.reason}", advice))
    return notes


def not_made(outcome: ConversionResult, suspects: Sequence[Suspect], *, alternative: bool = True) -> Finding:
    """Why a runtime could not be made: an unsupported operator, or how its process ended. `alternative`: another runtime is proven."""
    otherwise = _ANOTHER_RUNTIME if alternative else _REPORT
    advice = f"use another operator, or {otherwise}"
    obstacle = graph_breaks.classify(outcome.reason, outcome.reason, None, otherwise="conversion-failed")
    if obstacle.kind != "conversion-failed":
        known_cause = located(obstacle, suspects)
        return replace(known_cause, message=f"{outcome.name} cannot be made: {known_cause.message}")
    if unknown_operator := operator(outcome):
        return Finding("unsupported-operator", "warning", f"{outcome.name} cannot be made: {unknown_operator}", advice)
    return Finding(outcome.kind, "warning", f"{outcome.name} cannot be made: {outcome.reason}", otherwise)


def placed(finding: Finding, where: str) -> Finding:
    """A runtime that could not be made, with the line or the forward that it fails on."""
    if finding.kind == "unsupported-operator":
        return replace(finding, where=where)
    if ast_lint.is_statement(where):
        return replace(finding, where=where, advice=f"change what this line calls, or {finding.advice}")
    return replace(finding, where=where, message=f"{finding.message}; the line in this function that it fails on was not found")


def operator(outcome: ConversionResult) -> str:
    """The part of a runtime's error about an unsupported operator; empty for another error."""
    match = _UNKNOWN_OPERATOR.search(outcome.reason)
    return match[0] if match else ""


def operators(outcome: ConversionResult) -> list[str]:
    """The operators that a converter names as unknown."""
    match = _OPERATORS.search(outcome.reason)
    return match[1].split(", ") if match else []


def frozen(suspects: Sequence[Suspect]) -> list[Finding]:
    """What a wrong program may have frozen, if only one line can be the cause; a value that only self holds is the same for every input."""
    for pattern, kind, description, advice in _FREEZERS:
        possible = [suspect for suspect in suspects if suspect.pattern == pattern and not ast_lint.reads_only_self(suspect.text)]
        lines = {suspect.where: suspect for suspect in possible}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            return [Finding(kind, "error", f"{description} ({suspect.text})", advice, where)]
    return []


def unexplained(findings: Sequence[Finding]) -> bool:
    """Whether eager's own answers changed and no line explains it."""
    return any(_without_cause(item) for item in findings)


def influenced(findings: Sequence[Finding], hidden: Sequence[Finding]) -> list[Finding]:
    """Both lists, without changes of answers that a hidden influence explains."""
    return [*(item for item in findings if not (errors(hidden) and _without_cause(item))), *hidden]


def distrusted(rows: Mapping[str, RuntimeRow], hidden: Sequence[Finding]) -> dict[str, RuntimeRow]:
    """The rows; none is proven if eager's own answers depend on circumstances."""
    reason = next((item.message for item in hidden if item.severity == "error"), None)
    return {name: row if reason is None or row.status != Status.PROVEN else RuntimeRow(Status.FAILED, reason) for name, row in rows.items()}


def _without_cause(finding: Finding) -> bool:
    return finding.kind in _UNEXPLAINED and finding.severity == "error" and finding.where is None


def causes(findings: Sequence[Finding], *, seen: Sequence[Finding] = ()) -> list[Finding]:
    """The findings, without `program-departs` if another error explains it. `seen` was found in the eager model: where its forward changes
    state, what the program kept of it looks like other weights.
    """
    if any(item.kind in _STATE for item in seen):
        findings = [item for item in findings if item.kind != "weights-differ"]
    explained = any(item.severity == "error" and item.kind not in _FACTS for item in findings)
    return [item for item in findings if not (explained and item.kind == "program-departs")]


def judged(findings: Sequence[Finding], rows: Mapping[str, RuntimeRow]) -> list[Finding]:
    """Findings on state and train mode become errors if no runtime is proven; they are no reason why none could be made."""
    statuses = {row.status for row in rows.values()}
    if Status.PROVEN in statuses or statuses == {Status.NOT_MADE}:
        return list(findings)
    return [_as_error(item) if item.kind in _MAYBE and item.severity != "error" else item for item in findings]


def _as_error(finding: Finding) -> Finding:
    return replace(finding, severity="error", message=f"{finding.message}: the program keeps what it was made with")
