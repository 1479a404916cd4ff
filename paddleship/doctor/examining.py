"""Whether and how a model converts, before anyone waits for a conversion: watch it, convert it, try every runtime, explain.

Everything that runs the model happens in child processes, so that a crash or a hang is a finding like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from paddleship import isolate
from paddleship.candidate import Candidate
from paddleship.controlflow import regions
from paddleship.conversion import converting, exporting
from paddleship.conversion.converting import Outcome
from paddleship.diagnosis import explaining
from paddleship.doctor import breaks, remarks, sizes
from paddleship.doctor.breaks import Program
from paddleship.doctor.examination import Examination, RuntimeRow, by_gravity
from paddleship.doctor.habits import Checkup, Patient
from paddleship.eager import Subject
from paddleship.errors import BadInput, CandidateError, ModelError
from paddleship.finding import Finding
from paddleship.params import Model, Verify
from paddleship.proof import answering, inputs, proving
from paddleship.proof.inputs import Case
from paddleship.proof.originals import TO_STATIC
from paddleship.proof.proving import Proof

RUNTIMES = ("paddle", "paddle-onednn", "onnxruntime")
_PROGRAM = "paddle"  # the candidate that is the exported program itself
_MAX_BATCH = 8  # enough to tell a batch from a row, and quick for images
_SETTINGS = Verify(timeout_s=120)
_DEATHS = frozenset({"crash", "hang"})
_FOREIGN_LAYERS = frozenset({"unregistered-layer", "layer-in-forward", "shared-name"})


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
        examination = Examination(model.factory, [remarks.bad(error)])
    notes = remarks.assumptions(model)
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
        findings = [*checkup.findings, *remarks.refusals(checkup)]
        if not remarks.errors(findings):
            findings += remarks.nothing_finite(checkup)
        rows = dict.fromkeys(self._candidates, RuntimeRow("not tried"))
        program = None
        if checkup.answers:
            self._say("converting to a static graph")
            program, obstacles = self._convert(checkup)
            findings += obstacles
        if program is not None and not remarks.errors(findings):
            more, rows = self._prove(checkup, program)
            findings = [*remarks.graver(findings, rows), *more]
        return Examination(self._subject.model.factory, findings, rows, full_graph=program is not None)

    def _checkup(self) -> Checkup:
        with isolate.Isolated(remarks.EAGER, Patient, self._subject, timeout_s=self._settings.timeout_s) as patient:
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
            program, obstacle = None, remarks.death(error)
        alone = obstacle is not None and obstacle.where is None and obstacle.kind not in _DEATHS
        unused = [remarks.unused(name, checkup.forward, alone) for name in checkup.unused]
        if obstacle is None:
            return program, unused
        if alone and (unused or any(finding.kind in _FOREIGN_LAYERS for finding in checkup.findings)):
            return None, unused  # Paddle stumbles over what was found already, and says so in other words
        obstacle = remarks.placed(obstacle, checkup.suspects)
        if remarks.errors(checkup.findings):
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
        proved = proving.prove(self._subject, answered, contenders, settings=self._settings, say=self._say)
        rows = {outcome.name: remarks.row(outcome, proved) for outcome in outcomes}
        proven = any(row.status == "proven" for row in rows.values())
        troubles = self._troubles(outcomes, proved, checkup)
        found = [
            *proved.findings,
            *remarks.structure(program),
            *self._uncovered(proved),
            *(replace(item, severity="warning" if proven else "error") for item in troubles),
        ]
        return found, rows

    def _troubles(self, outcomes: Sequence[Outcome], proved: Proof, checkup: Checkup) -> list[Finding]:
        """Why runtimes were not made or are not proven. Where `to_static` is wrong already, all are wrong for one reason."""
        found = [self._unmade(outcome, proved, checkup) for outcome in outcomes if not outcome.made]
        wrong = [outcome.name for outcome in outcomes if outcome.made and not proved.judgements[outcome.name]]
        if not proved.judgements[TO_STATIC]:
            decided = self._frozen(proved) or remarks.frozen(checkup.suspects)
            return remarks.causes([*decided, *found, *(self._wrong(wrong[0], proved, checkup) if wrong else [])])
        for name in wrong:
            found += [replace(item, message=f"{name}: {item.message}") for item in self._wrong(name, proved, checkup)]
        return found

    def _control_flow(self, proved: Proof) -> list[Finding]:
        return regions.judge(regions.read(self._work / "exported"), proved.taken)[0]

    def _frozen(self, proved: Proof) -> list[Finding]:
        """What was decided while converting, for a program that is wrong."""
        return [finding for finding in self._control_flow(proved) if finding.kind != "uncovered-branch"]

    def _uncovered(self, proved: Proof) -> list[Finding]:
        """Sides of the program that no input took, and what is decided for ever without having been seen to be wrong."""
        right = bool(proved.judgements[TO_STATIC])
        return [
            finding
            for finding in self._control_flow(proved)
            if finding.kind == "uncovered-branch" or (right and finding.severity == "warning")
        ]

    def _unmade(self, outcome: Outcome, proved: Proof, checkup: Checkup) -> Finding:
        """Why a runtime could not be made, with the line that it fails on where a sublayer alone shows it."""
        finding = remarks.not_made(outcome, checkup.suspects)
        if finding.where or finding.kind == "hang":
            return finding
        self._say(f"looking for the line that {outcome.name} fails on")
        planned = converting.plan(outcome.name, Candidate.load(self._work / "exported"), threads=1)
        guilty = explaining.blame(self._subject, planned, proved.evidence, settings=self._settings)
        return replace(finding, where=guilty.where) if guilty else finding

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
        judgement, folder = proved.judgements[name], self._work / name
        if known := remarks.known(judgement, checkup.suspects):
            return [known]
        lost = proved.answers[name] is None or any(item.kind == "another-form" for item in judgement.findings)
        kept = name != _PROGRAM and bool(proved.judgements.get(_PROGRAM))
        seconds = self._settings.timeout_s
        if lost and (frozen := sizes.frozen(folder, proved.evidence, checkup.suspects, kept=kept, timeout_s=seconds)):
            return frozen
        self._say(f"looking for the reason why {name} is wrong")
        failed = [check.name for check in judgement.checks if not check.passed]
        explained = explaining.explain(
            self._subject, folder, evidence=proved.evidence, answers=proved.answers[name], settings=self._settings, failed=failed
        )
        kinds = {item.kind for item in explained.findings}
        where = next((item.where for item in explained.findings if item.where), None)
        own = [replace(item, where=item.where or where) for item in judgement.findings if item.kind not in kinds]
        return remarks.causes([*explained.findings, *own], seen=checkup.findings)
