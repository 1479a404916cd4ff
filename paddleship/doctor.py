"""Whether and how a model converts, before anyone waits for a conversion: watch it, convert it, try every runtime, explain.

Everything that runs the model happens in child processes, so that a crash or a hang is a finding like any other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from paddleship import answering, breaks, converting, exporting, inputs, isolate, proof, sizes
from paddleship.breaks import Program
from paddleship.candidate import Candidate
from paddleship.converting import Outcome
from paddleship.eager import Subject
from paddleship.errors import BadInput, CandidateError, ModelError
from paddleship.examination import Examination, RuntimeRow, by_gravity
from paddleship.finding import Finding
from paddleship.habits import Checkup, Patient
from paddleship.inputs import Case
from paddleship.params import Model, Verify
from paddleship.parity import Judgement
from paddleship.proof import Proof
from paddleship.source import LEFT_BY_BREAK, Suspect

RUNTIMES = ("paddle", "paddle-onednn", "onnxruntime")
_MAX_BATCH = 8  # enough to tell a batch from a row, and quick for images
_SETTINGS = Verify(timeout_s=120)
_FOREIGN_LAYERS = frozenset({"unregistered-layer", "layer-in-forward", "shared-name"})
_WHERE = re.compile(r" at (\S+:\d+)\)")
_UNKNOWN_OPERATOR = re.compile(
    r"(?:not supported|unsupported|not registered|no kernel|cannot find|Unimplemented|not support).*", re.IGNORECASE
)


def examine(
    model: Model,
    *,
    work: Path,
    seed: int = 0,
    checkpoint: Path | None = None,
    candidates: Sequence[str] = RUNTIMES,
    settings: Verify = _SETTINGS,
    say: Callable[[str], None] = lambda _line: None,
) -> Examination:
    """Examine a model in the folder `work`; without a checkpoint its seeded weights are taken. Bad input is a finding, not an exception."""
    began = time.monotonic()
    subject = Subject(model, checkpoint or work / "checkpoint", seed)
    cases = inputs.generate([item.spec() for item in model.inputs], seed=seed, max_batch=min(settings.max_batch, _MAX_BATCH))
    visit = Visit(subject, work, cases, tuple(candidates), settings, say)
    try:
        examination = visit.examine()
    except BadInput as error:
        examination = Examination(model.factory, [_bad(error)])
    notes = _assumptions(subject)
    return replace(examination, findings=by_gravity([*examination.findings, *notes]), seconds=time.monotonic() - began)


class Visit:
    """One examination: what it works on, and its parts in order."""

    def __init__(
        self, subject: Subject, work: Path, cases: Sequence[Case], candidates: tuple[str, ...], settings: Verify, say: Callable[[str], None]
    ) -> None:
        self._subject = subject
        self._work = work
        self._cases = cases
        self._candidates = candidates
        self._settings = settings
        self._say = say

    def examine(self) -> Examination:
        """Raises BadInput where the model cannot be built or called."""
        self._say("watching the eager model")
        checkup = self._checkup()
        findings = [*checkup.findings, *_refusals(checkup)]
        rows = dict.fromkeys(self._candidates, RuntimeRow("not tried"))
        program = None
        if checkup.answers:
            self._say("converting to a static graph")
            program, obstacles = self._convert(checkup)
            findings += obstacles
        if program is not None and not _errors(findings):
            more, rows = self._prove(checkup, program)
            findings += more
        return Examination(self._subject.model.factory, findings, rows, full_graph=program is not None)

    def _checkup(self) -> Checkup:
        with isolate.Isolated("the eager model", Patient, self._subject, timeout_s=self._settings.timeout_s) as patient:
            checkup: Checkup = patient.call("examine", self._cases)
        return checkup

    def _convert(self, checkup: Checkup) -> tuple[Program | None, list[Finding]]:
        """The program in `work/exported`, or what stands in its way."""
        folder = self._work / "exported"
        folder.mkdir(parents=True, exist_ok=True)
        specs = [item.spec() for item in self._subject.model.inputs]
        try:
            program, obstacle = isolate.run(
                "the conversion", breaks.convert, self._subject, folder, specs, timeout_s=self._settings.timeout_s
            )
        except CandidateError as error:
            program, obstacle = None, _death(error)
        unused = [_unused(name, checkup.forward, program is None) for name in checkup.unused]
        if obstacle is None:
            return program, unused
        if obstacle.where is None and (unused or any(finding.kind in _FOREIGN_LAYERS for finding in checkup.findings)):
            return None, unused  # Paddle stumbles over what was found already, and says so in other words
        obstacle = _placed(obstacle, checkup.suspects)
        if _errors(checkup.findings):
            return None, [*unused, obstacle]
        return None, [*unused, obstacle, *self._breaks(checkup, obstacle)]

    def _breaks(self, checkup: Checkup, obstacle: Finding) -> list[Finding]:
        """The other places where the graph breaks; nothing where SOT cannot tell."""
        self._say("looking for all graph breaks")
        batches = [case.inputs for case in self._cases if case.name in checkup.answers][:2]
        try:
            found: list[Finding] = isolate.run("SOT", breaks.collect, self._subject, batches, timeout_s=self._settings.timeout_s)
        except CandidateError:
            return []
        return [finding for finding in found if finding.where != obstacle.where]

    def _prove(self, checkup: Checkup, program: Program) -> tuple[list[Finding], dict[str, RuntimeRow]]:
        """Make every candidate, let all answer, and explain what is wrong."""
        exported = self._work / "exported"
        answered = [case for case in self._cases if case.name in checkup.answers]
        self._candidate(checkup, program, answered).save(exported)
        self._say(f"making {', '.join(self._candidates)}")
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda name: self._make(name, exported, answered[0]), self._candidates))
        contenders = {outcome.name: answering.candidate(self._work / outcome.name) for outcome in outcomes if outcome.made}
        self._say("comparing all answers with the truth")
        proved = proof.prove(self._subject, answered, contenders, settings=self._settings, say=self._say)
        rows = {outcome.name: _row(outcome, proved) for outcome in outcomes}
        findings = [*proved.findings, *_structure(program)]
        for outcome in outcomes:
            if not outcome.made:
                findings.append(_not_made(outcome))
            elif not proved.judgements[outcome.name]:
                findings += self._wrong(outcome.name, proved, checkup)
        if not any(row.status == "proven" for row in rows.values()):
            findings = [replace(item, severity="error") if item.layer in rows else item for item in findings]
        return findings, rows

    def _candidate(self, checkup: Checkup, program: Program, answered: Sequence[Case]) -> Candidate:
        weights, sources = program
        specs = tuple(item.spec() for item in self._subject.model.inputs)
        rows = [case for case in answered if case.group == "rows"] or list(answered)
        outputs = exporting.describe_outputs(specs, [case.inputs for case in rows], [checkup.answers[case.name] for case in rows])
        if list(sources) != [spec.name for spec in outputs]:
            words = f"eager returns {', '.join(spec.name for spec in outputs)}, and the program {', '.join(sources)}"
            raise ModelError(f"{words}: return the same things at every call")
        return Candidate(
            name="paddle",
            model=self._subject.model.factory,
            runtime="paddle",
            precision="float32",
            threads=1,
            inputs=specs,
            outputs=outputs,
            preprocess={},
            weights_sha256=weights,
            task="regression",
            sources=sources,
            nesting=checkup.nesting,
        )

    def _make(self, name: str, exported: Path, case: Case) -> Outcome:
        made = converting.convert(name, exported, self._work / name, threads=1, probe=case.inputs, timeout_s=self._settings.timeout_s)
        return replace(made, reason=made.reason.replace(f"{self._work}/", ""))

    def _wrong(self, name: str, proved: Proof, checkup: Checkup) -> list[Finding]:
        """Why a runtime that was made is not proven."""
        judgement = proved.judgements[name]
        if frozen := sizes.frozen(self._work / name, proved.evidence, checkup.suspects, timeout_s=self._settings.timeout_s):
            return [replace(finding, layer=name) for finding in frozen]
        found = [replace(finding, severity="warning", layer=name) for finding in judgement.findings]
        return found or [
            Finding("wrong-answers", "warning", f"{name} is not proven: {_failed(judgement)}", "do not ship this runtime", layer=name)
        ]


def _errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _bad(error: BadInput) -> Finding:
    """An exception of the user's model as a finding."""
    text = str(error)
    if isinstance(error, CandidateError):
        return _death(error)
    where = _WHERE.search(text)
    return breaks.classify(text, text, where[1] if where else None, otherwise="bad-model")


def _death(error: CandidateError) -> Finding:
    """A child that died or hung, or said something that nobody expected."""
    text = str(error)
    kind = "crash" if " died of " in text or " exited with " in text else "hang" if "did not answer" in text else "conversion-failed"
    where = _WHERE.search(text)
    return Finding(
        kind, "error", text, "look at the loops and operators of forward, or leave this runtime out", where[1] if where else None
    )


def _placed(obstacle: Finding, suspects: Sequence[Suspect]) -> Finding:
    """An obstacle without a line, at the only line that it can be."""
    if obstacle.where is not None:
        return obstacle
    wanted = (LEFT_BY_BREAK,) if "break" in obstacle.message else ("branch-mismatch", "python-value", "dynamic-shape-branch")
    for habit in wanted:
        lines = {suspect.where: suspect for suspect in suspects if suspect.habit == habit}
        if len(lines) == 1:
            ((where, suspect),) = lines.items()
            kind = obstacle.kind if habit == LEFT_BY_BREAK or obstacle.kind != "graph-break" else habit
            message = f"{obstacle.message}; it is this line: {suspect.text}"
            return replace(obstacle, kind=kind, where=where, message=message, advice=breaks.ADVICE.get(kind, obstacle.advice))
    return obstacle


def _unused(name: str, where: str | None, grave: bool) -> Finding:
    message = f"input {name!r} has no influence on any output" + (", and Paddle refuses to export it" if grave else "")
    return Finding("unused-input", "error" if grave else "warning", message, "remove it from the inputs and from forward, or use it", where)


def _refusals(checkup: Checkup) -> list[Finding]:
    """Sizes that the eager model itself does not take."""
    return [
        Finding("bad-model", "note", f"eager does not take {name}: {words}", "declare a size as a number where only one works")
        for name, words in list(checkup.refused.items())[:1]
    ]


def _assumptions(subject: Subject) -> list[Finding]:
    """What nobody declared and was therefore chosen."""
    return [
        Finding(
            "assumed-range",
            "note",
            f"input {item.name!r} has no declared range of values: only {item.low or 0:g} and {(item.low or 0) + 1:g} were tried",
            f"declare it: --input '{item.name}:{item.dtype}[…]=0..99', or low and high in params.yaml",
        )
        for item in subject.model.inputs
        if item.dtype.startswith("int") and item.high is None
    ]


def _structure(program: Program) -> list[Finding]:
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


def _row(outcome: Outcome, proved: Proof) -> RuntimeRow:
    if not outcome.made:
        return RuntimeRow("not made", outcome.reason)
    judgement = proved.judgements[outcome.name]
    ratio = judgement.metrics.get("noise_ratio")
    return RuntimeRow("proven", noise_ratio=ratio) if judgement else RuntimeRow("failed", _failed(judgement), ratio)


def _failed(judgement: Judgement) -> str:
    return next((f"{check.name} is {check.measured}" for check in judgement.checks if not check.passed), "")


def _not_made(outcome: Outcome) -> Finding:
    found = _death(CandidateError(outcome.reason))
    advice = "leave this runtime out of optimize.candidates, or use another operator in its place"
    if found.kind == "conversion-failed" and (words := _UNKNOWN_OPERATOR.search(outcome.reason)):
        return Finding("unsupported-operator", "warning", f"{outcome.name}: {words[0]}", advice, found.where, outcome.name)
    return Finding(found.kind, "warning", f"{outcome.name} cannot be made: {outcome.reason}", advice, found.where, outcome.name)
