"""Examine whether and how a model converts: observe eager, convert it, try every runtime, then explain errors.

Everything that runs the model is in child processes, so that a crash or hang is a finding. The verdict on runtimes comes before the
search for causes: at the time limit, the result is what is known so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from paddleship.config.catalogue import PROGRAM
from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.controlflow import regions
from paddleship.conversion import converting, exporting
from paddleship.conversion.converting import ConversionResult
from paddleship.conversion.exporting import SavedProgram
from paddleship.diagnosis import explaining
from paddleship.doctor import (
    ast_lint,
    case_runner,
    changed_statements,
    exercising,
    graph_breaks,
    loop_trials,
    memory,
    messages,
    operator_lines,
    size_reads,
    sizes,
)
from paddleship.doctor.eager_probe import ProbeResult
from paddleship.doctor.examination import OUT_OF_TIME, Examination, RuntimeRow, by_gravity
from paddleship.errors import BadInput, CandidateError, OutOfTime, ProcessDied, ProcessHung
from paddleship.model.eager import SourceModel
from paddleship.proof import answering, proving
from paddleship.proof import evidence as evidences
from paddleship.proof.cases import id_cases, inputs
from paddleship.proof.cases.inputs import Case
from paddleship.proof.cases.searching import Search
from paddleship.proof.evidence import Evidence
from paddleship.proof.hidden_influences import influences
from paddleship.proof.proving import Proof
from paddleship.proof.reference import TO_STATIC, EarlierAnswers
from paddleship.reports.finding import Finding, Severity
from paddleship.reports.statuses import Status
from paddleship.shipped.computing import structure
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.system import deadline, isolate
from paddleship.system.deadline import Deadline, with_deadline
from paddleship.weights import candidate_files
from paddleship.weights.candidate_files import WeightFiles

Found = TypeVar("Found")

_WATCHING = 0.05  # share of the time; everything is asked about ten times more later, and float64 is slow
_HANGS = 0.25  # share of the time after which a call of eager counts as hanging
_BATCHES = (1, 2, 7)  # and the largest: to_static makes another program for each, and `verify` asks them all
_TRIED = 3  # wrong answers that a cause has to explain
_MAX_BATCH = 8  # enough to distinguish a batch from a row, and fast for images
_LEAST_S, _PATIENCE = 120, 0.5  # a call may take this share of the time, and so many seconds at least
SECONDS = 120.0
_REASON_CHARACTERS = 80  # characters of an error by which it is recognised
_DEATHS = frozenset({"crash", "hang", OUT_OF_TIME})
_FOREIGN_LAYERS = frozenset({"unregistered-layer", "layer-in-forward", "shared-name"})


def examine(
    model: Model,
    *,
    work: Path,
    seed: int = 0,
    checkpoint: Path | None = None,
    candidates: Sequence[str] | None = None,
    settings: Verify | None = None,
    seconds: float = SECONDS,
    say: Callable[[str], None] = lambda _line: None,
) -> Examination:
    """Examine a model in the folder `work` for at most `seconds`; without a checkpoint, seeded weights are used.

    Bad input is a finding, not an exception.
    """
    began = time.monotonic()
    settings = settings or _limits(seconds)
    reasons = {name: kind.unavailable() for name, kind in registry.kinds().items() if kind.examined} if candidates is None else {}
    chosen = [name for name, reason in reasons.items() if not reason] if candidates is None else candidates
    examiner = Examiner(SourceModel(model, checkpoint or work / "checkpoint", seed), work, tuple(chosen), settings, seconds, say)
    with Deadline(seconds).binding():
        try:
            examiner.examine()
        except BadInput as error:
            finding = messages.bad(error, converted=examiner.full_graph)
            if isinstance(error, ProcessHung) and error.seconds < settings.timeout_s:  # its share of `seconds` was over
                examiner.rows, finding = messages.late(examiner.rows), replace(finding, kind=OUT_OF_TIME, advice="")
            examiner.findings.append(finding)
        except OutOfTime:
            examiner.rows = examiner.rows if examiner.judged else messages.late(examiner.rows)
            examiner.findings.append(messages.unfinished(examiner.doing, seconds, examiner.rows, judged=examiner.judged))
    findings = by_gravity(messages.advised([*examiner.findings, *messages.assumptions(examiner.model)]))
    findings += messages.unexplained_runtimes(examiner.rows, examiner.explained, findings)
    unavailable = {name: reason for name, reason in reasons.items() if reason}
    return Examination(model.title, findings, examiner.rows, examiner.full_graph, time.monotonic() - began, unavailable)


def _limits(seconds: float) -> Verify:
    return Verify(timeout_s=max(_LEAST_S, _PATIENCE * seconds))


class Examiner:
    """One examination: its settings, its parts in order, and the results so far.

    `judged`: the verdict on each runtime is known. `explained` has the findings about each runtime alone. `doing` is the current step.
    """

    def __init__(
        self,
        source_model: SourceModel,
        work: Path,
        candidates: tuple[str, ...],
        settings: Verify,
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._source_model = source_model
        self._work = work
        self._candidates = candidates
        self._settings = settings
        self._seconds = seconds
        self._report = say
        self._cases = self._draw()
        self.findings: list[Finding] = []
        self.rows = dict.fromkeys(candidates, RuntimeRow(Status.NOT_TRIED))
        self.explained: dict[str, list[Finding]] = {}
        self.full_graph = False
        self.judged = False
        self.doing = ""
        self._evidence: Evidence | None = None

    def examine(self) -> None:
        """Raises BadInput if the model cannot be built or called, and OutOfTime."""
        self._say("watching the eager model")
        probed = self._probe()
        if not messages.errors(probed.findings) and self._exercise(probed):
            probed = self._probe()
        self.findings += [
            *probed.findings,
            *messages.refusals(probed, self._cases, self._source_model.model),
            *messages.skipped_slow(probed),
        ]
        if not messages.errors(self.findings):
            self.findings += messages.nothing_finite(probed)
        if not probed.answers:
            return
        self._say("converting to a static graph")
        program, obstacle = self._convert(probed)
        self.full_graph = program is not None
        if program is not None and not messages.errors(self.findings):
            self._prove(probed, program)
        self.judged = True
        if obstacle is not None and not messages.errors(probed.findings):
            if looped := self._looped(probed, self._eager_answers(probed)) if obstacle.kind != OUT_OF_TIME else []:
                self.findings = [finding for finding in self.findings if finding is not obstacle] + looped
            else:
                self.findings += self._breaks(probed, obstacle)
        self._hidden(probed)

    @property
    def model(self) -> Model:
        """The model with the ranges that were used to draw its inputs."""
        return self._source_model.model

    def _say(self, message: str) -> None:
        self.doing = message
        self._report(message)

    def _draw(self) -> list[Case]:
        specs = [item.spec() for item in self._source_model.model.inputs]
        most, rules = min(self._settings.max_batch, _MAX_BATCH), self._source_model.model.rules
        drawn = inputs.generate(specs, seed=self._source_model.seed, max_batch=most, dimensions=rules)
        cases = [case for case in drawn if len(case.rows) in (0, *_BATCHES, most)]
        return cases + id_cases.walk(specs, [case.inputs for case in cases], max_batch=self._settings.max_batch)

    def _probe(self) -> ProbeResult:
        """Observe eager. If it rejects or crashes on rows, and inputs may hold lengths, they are drawn again as lengths."""
        lengths = case_runner.bounded(self._source_model.model)
        first = self._watch(max_crashes=case_runner.MAX_CRASHES if lengths is None else 1)
        if isinstance(first, ProcessDied | ProcessHung):  # outside a case, which says nothing about values
            raise first
        if lengths is not None and not case_runner.all_answered(first, self._cases):
            drawn, before = self._cases, self._source_model
            self._source_model = replace(before, model=lengths)
            self._cases = self._draw()
            self._say("watching the eager model again, with lengths within the generated rows")
            second = self._watch()
            if isinstance(second, ProbeResult) and case_runner.answered(second, self._cases) > case_runner.answered(first, drawn):
                self.findings += messages.lengths(before.model, lengths, first, drawn)
                return second
            self._cases, self._source_model = drawn, before
        if isinstance(first, case_runner.NotSurvivedError):
            killed = messages.killed(first, self._source_model.model)
            self.rows = messages.late(self.rows) if killed.kind == OUT_OF_TIME else self.rows
            return ProbeResult([killed])
        if isinstance(first, BadInput):
            raise first
        return first

    def _watch(self, *, max_crashes: int = case_runner.MAX_CRASHES) -> ProbeResult | BadInput:
        most, budget = min(self._settings.timeout_s, _HANGS * self._seconds), _WATCHING * self._seconds
        try:
            return case_runner.examine(self._source_model, self._cases, timeout_s=most, budget_s=budget, max_crashes=max_crashes)
        except BadInput as error:
            return error

    def _exercise(self, probed: ProbeResult) -> bool:
        """Whether other fresh weights were found with which fewer outputs are empty or constant."""
        fresh = self._source_model.checkpoint == self._work / "checkpoint"
        if not fresh or not probed.answers or not (unvarying := exercising.unvarying(self._cases, probed.answers)):
            return False
        self._say(f"looking for weights that vary {', '.join(unvarying)}")
        cases = [case for case in self._cases if case.name in probed.answers]
        seconds = exercising.SECONDS
        try:
            improved: bool = isolate.run(
                "the search", exercising.search, self._source_model, cases, seconds, timeout_s=seconds + self._settings.timeout_s
            )
        except BadInput:
            return False
        return improved

    def _convert(self, probed: ProbeResult) -> tuple[SavedProgram | None, Finding | None]:
        """The program in `work/exported`, or the error."""
        folder = self._work / "exported"
        folder.mkdir(parents=True, exist_ok=True)
        specs = [item.spec() for item in self._source_model.model.inputs]
        try:
            program, obstacle = isolate.run(
                "the conversion", graph_breaks.convert, self._source_model, folder, specs, timeout_s=self._settings.timeout_s
            )
        except ProcessHung as error:
            program, obstacle = None, messages.slow_conversion(error)
            self.rows = messages.late(self.rows)
        except CandidateError as error:
            program, obstacle = None, messages.crash(error)
        alone = obstacle is not None and obstacle.where is None and obstacle.kind not in _DEATHS
        by_size = sizes.only_sizes(folder) if program is not None else set[str]()
        idle = [name for name in probed.unused if name not in by_size] if alone or self._varies(probed) else []
        idle.sort(key=ast_lint.names(probed.forward).__contains__)  # first an input that forward does not even mention
        self.findings += [messages.size_only(name, probed.forward) for name in probed.unused if name in by_size]
        self.findings += [messages.unused(name, probed.forward, grave=alone, alone=len(idle) == 1) for name in idle]
        self.findings += [messages.influence_unknown(name) for name in probed.influence_unknown]
        if obstacle is None:
            return program, None
        if alone and (probed.unused or any(finding.kind in _FOREIGN_LAYERS for finding in probed.findings)):
            return None, None  # Paddle fails because of a known finding, with another message
        located = messages.located(obstacle, probed.suspects)
        self.findings.append(located)
        return None, located

    def _varies(self, probed: ProbeResult) -> bool:
        """Whether an output varied: of a model with constant answers, unused inputs cannot be determined."""
        outputs = {name for answer in probed.answers.values() for name in answer}
        return bool(outputs - set(exercising.unvarying(self._cases, probed.answers)))

    def _breaks(self, probed: ProbeResult, obstacle: Finding) -> list[Finding]:
        """The other graph breaks; empty if SOT fails."""
        self._say("looking for all graph breaks")
        batches = [case.inputs for case in self._cases if case.name in probed.answers][:2]
        try:
            breaks: list[Finding] = isolate.run(
                "SOT", graph_breaks.collect, self._source_model, batches, timeout_s=self._settings.timeout_s
            )
        except CandidateError:
            return []
        return [finding for finding in breaks if finding.where != obstacle.where]

    def _prove(self, probed: ProbeResult, program: SavedProgram) -> None:
        """Make every candidate, ask all of them, and explain errors."""
        exported = self._work / "exported"
        answered = [case for case in self._cases if case.name in probed.answers]
        self._candidate(probed, program, answered).save(exported)
        self._say(f"converting to {', '.join(self._candidates)}")
        make = with_deadline(partial(self._make, exported=exported, case=answered[0]))
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(make, self._candidates))
        made = {outcome.name: self._work / outcome.name for outcome in outcomes if outcome.made}
        models_under_test = {name: answering.candidate(folder) for name, folder in made.items()}
        self._say("comparing all weights and answers")
        compared_weights = candidate_files.compare(
            WeightFiles(self._source_model.checkpoint, exported, made), timeout_s=self._settings.timeout_s
        )
        proved = proving.prove(
            self._source_model,
            answered,
            models_under_test,
            settings=self._settings,
            compared_weights=compared_weights,
            say=self._report,
            probe_inputs=False,
            earlier=EarlierAnswers(
                {name: answer for name, answer in probed.answers.items() if name not in probed.cut_short}, probed.taken_branches
            ),
            search=Search([item.spec() for item in self._source_model.model.inputs], exported, seed=self._source_model.seed),
        )
        self.rows = {outcome.name: messages.row(outcome, proved) for outcome in outcomes}
        self._evidence = proved.evidence
        self.judged = all(outcome.name in proved.judgements for outcome in outcomes if outcome.made)
        self.findings = messages.judged(self.findings, self.rows)
        self.findings += [*messages.unproven(proved.findings), *messages.structure(program), *self._uncovered(proved)]
        severity: Severity = "warning" if messages.proven(self.rows) else "error"
        for name, findings in self._troubles(outcomes, proved, probed):
            graded = [replace(item, severity=severity) for item in findings]
            self.findings += graded
            self.explained[name] = graded
        if deadline.over() or not self.judged:
            raise OutOfTime

    def _troubles(self, outcomes: Sequence[ConversionResult], proved: Proof, probed: ProbeResult) -> Iterator[tuple[str, list[Finding]]]:
        """Why runtimes were not made or are not proven, by their names; TO_STATIC stands for the program.

        If `to_static` is wrong already, all are wrong for the same reason.
        """
        wrong = [name for name, judgement in proved.judgements.items() if name != TO_STATIC and not judgement]
        unmade = [] if proved.judgements.get(PROGRAM) else [outcome.name for outcome in outcomes if not outcome.made]
        if failed := [*wrong, *unmade]:
            answered = self._wrong_answers(failed[0], proved)
            effect = size_reads.WRONG if proved.answers.get(failed[0]) else size_reads.FAILS
            cause = self._misread(answered, effect) or ([] if proved.judgements.get(PROGRAM) else self._looped(probed, answered))
            if cause:
                yield TO_STATIC, cause
                return
        if proved.judgements[TO_STATIC]:
            for outcome in outcomes:
                if not outcome.made:
                    yield outcome.name, [self._unmade(outcome, proved, probed)]
            for name in wrong:
                yield name, [replace(item, message=f"{name}: {item.message}") for item in self._wrong(name, proved, probed)]
            return
        if raised := messages.raised(proved, probed.suspects):
            yield TO_STATIC, [raised]
            return
        if changed := self._changed(proved, probed):
            yield TO_STATIC, changed
            return
        failures = [self._unmade(outcome, proved, probed) for outcome in outcomes if not outcome.made]
        decided = self._frozen(proved) or messages.frozen(probed.suspects)
        yield TO_STATIC, messages.causes([*decided, *failures, *(self._wrong(wrong[0], proved, probed) if wrong else [])])

    def _misread(self, answered: Sequence[size_reads.Answered], effect: str) -> list[Finding]:
        """A line that reads a dynamic size as -1, if that explains why the exported program fails on these cases, or answers wrongly."""
        self._say("looking for a size that is read as -1")
        return self._search(size_reads.of_answers, Candidate.load(self._work / "exported"), answered, effect) or []

    def _wrong_answers(self, name: str, proved: Proof) -> list[size_reads.Answered]:
        """Cases that this runtime answers wrongly, or any if it was not made or answered none, with eager's answers."""
        answers = proved.answers.get(name)
        compared = zip(proved.evidence.cases, proved.evidence.reference, answers or proved.evidence.reference, strict=True)
        wrong = [
            size_reads.Answered(case.inputs, right) for case, right, answer in compared if answers is None or not memory.same(right, answer)
        ]
        return wrong[:_TRIED]

    def _eager_answers(self, probed: ProbeResult) -> list[size_reads.Answered]:
        """Eager's answers to the largest cases."""
        cases = sorted(
            (case for case in self._cases if case.name in probed.answers), key=lambda case: -sum(map(np.size, case.inputs.values()))
        )
        return [size_reads.Answered(case.inputs, probed.answers[case.name]) for case in cases[:_TRIED]]

    def _looped(self, probed: ProbeResult, answered: Sequence[size_reads.Answered]) -> list[Finding]:
        """Values that a loop of the program cannot hold, if the model converts and answers these cases as eager does without them."""
        suspects = [suspect for suspect in probed.suspects if suspect.pattern in loop_trials.PATTERNS]
        if not suspects or not answered:
            return []
        self._say("looking for a value that a loop cannot hold")
        try:
            described = self._described(probed, [case for case in self._cases if case.name in probed.answers])
        except BadInput:
            return []
        return loop_trials.find(self._source_model, described, suspects, answered, timeout_s=self._settings.timeout_s)

    def _changed(self, proved: Proof, probed: ProbeResult) -> list[Finding]:
        """Statements that the conversion changes, on lines without a finding, if that explains all wrong answers that are tried."""
        known = {finding.where for finding in self.findings}
        possible = [suspect for suspect in probed.suspects if suspect.pattern in changed_statements.PATTERNS]
        suspects = [suspect for suspect in possible if suspect.where not in known]
        answers = proved.answers[TO_STATIC] or next((answers for answers in proved.answers.values() if answers is not None), None)
        if not suspects or answers is None:
            return []
        compared = zip(proved.evidence.cases, proved.evidence.reference, answers, strict=True)
        wrong = [changed_statements.Answered(case.inputs, answer) for case, right, answer in compared if not memory.same(right, answer)]
        if not wrong:
            return []
        self._say("looking for a statement that the conversion changes")
        return self._search(changed_statements.find, suspects, wrong[:_TRIED]) or []

    def _search(self, find: Callable[..., Found], *arguments: Any) -> Found | None:
        """What is found in a process of its own, given the model and the arguments; None if that process fails."""
        try:
            found: Found = isolate.run("the search", find, self._source_model, *arguments, timeout_s=self._settings.timeout_s)
        except CandidateError:
            return None
        return found

    def _control_flow(self, proved: Proof) -> list[Finding]:
        return regions.judge(regions.read(self._work / "exported"), proved.taken_branches)[0]

    def _frozen(self, proved: Proof) -> list[Finding]:
        """Decisions during the conversion, for a program that is wrong."""
        return [finding for finding in self._control_flow(proved) if finding.kind != "uncovered-branch"]

    def _uncovered(self, proved: Proof) -> list[Finding]:
        """Sides of the program that no input took, and frozen decisions of a program that was not found wrong."""
        right = bool(proved.judgements[TO_STATIC])
        return [
            finding
            for finding in self._control_flow(proved)
            if finding.kind == "uncovered-branch" or (right and finding.severity == "warning")
        ]

    def _unmade(self, outcome: ConversionResult, proved: Proof, probed: ProbeResult) -> Finding:
        """Why a runtime could not be made, with the line on which it fails: that of the operator that the converter names, or the line
        with which a sublayer alone fails in the same way.
        """
        finding = messages.not_made(outcome, probed.suspects, alternative=messages.proven(self.rows))
        if finding.where or finding.kind == "hang":
            return finding
        self._say(f"looking for the line that {outcome.name} fails on")
        if names := messages.operators(outcome):
            specs = [item.spec() for item in self._source_model.model.inputs]
            return replace(finding, where=self._search(operator_lines.find, specs, names))
        planned = converting.plan(outcome.name, Candidate.load(self._work / "exported"), threads=1)
        reason = messages.operator(outcome) or ("" if outcome.kind in _DEATHS else outcome.reason[:_REASON_CHARACTERS])
        first = explaining.blame(self._source_model, planned, proved.evidence, settings=self._settings, error=reason)
        return messages.placed(finding, first.where) if first and first.where else finding

    def _hidden(self, probed: ProbeResult) -> None:
        """Look for hidden influences, if runtimes were compared, or if eager's answers changed and no line explains it."""
        answered = [case for case in self._cases if case.name in probed.answers]
        evidence = self._evidence
        if evidence is None and any(case.group == "rows" for case in answered) and messages.unexplained(self.findings):
            evidence = evidences.gather(answered, [probed.answers[case.name] for case in answered], None)
        if evidence is None:
            return
        self._say("looking for hidden influences")
        findings = influences.find(self._source_model, evidence, timeout_s=self._settings.timeout_s).findings
        self.findings = messages.influenced(self.findings, findings)
        self.rows = messages.distrusted(self.rows, findings)

    def _candidate(self, probed: ProbeResult, program: SavedProgram, answered: Sequence[Case]) -> Candidate:
        described = self._described(probed, answered)
        exporting.check_form(described.model, [spec.name for spec in described.outputs], structure.constants(probed.nesting), program)
        return replace(described, weights_sha256=program.weights, sources=program.sources)

    def _described(self, probed: ProbeResult, answered: Sequence[Case]) -> Candidate:
        """The candidate of the exported program without what is only known of its files."""
        specs = tuple(item.spec() for item in self._source_model.model.inputs)
        rows = [case for case in answered if case.group == "rows"] or list(answered)
        return Candidate(
            name=PROGRAM,
            model=self._source_model.model.title,
            runtime=registry.of(PROGRAM).name,
            precision="float32",
            threads=1,
            inputs=specs,
            outputs=exporting.describe_outputs(specs, [case.inputs for case in rows], [probed.answers[case.name] for case in rows]),
            preprocess={},
            weights_sha256="",  # of a program
            nesting=probed.nesting,
        )

    def _make(self, name: str, exported: Path, case: Case) -> ConversionResult:
        made = converting.convert(name, exported, self._work / name, threads=1, probe=case.inputs, timeout_s=self._settings.timeout_s)
        return replace(made, reason=made.reason.replace(f"{self._work}/", ""))

    def _wrong(self, name: str, proved: Proof, probed: ProbeResult) -> list[Finding]:
        """Why a runtime that was made is not proven."""
        judgement, folder = proved.judgements[name], self._work / name
        if known := messages.known(judgement, probed.suspects):
            return [known]
        lost = proved.answers[name] is None or any(item.kind == "another-form" for item in judgement.findings)
        program_proven = name != PROGRAM and bool(proved.judgements.get(PROGRAM))
        seconds = self._settings.timeout_s
        if lost and (frozen := sizes.frozen(folder, proved.evidence, probed.suspects, program_proven=program_proven, timeout_s=seconds)):
            return frozen
        self._say(f"looking for the cause of wrong answers in {name}")
        failed = [check.name for check in judgement.checks if not check.passed]
        explained = explaining.explain(
            self._source_model,
            folder,
            evidence=proved.evidence,
            answers=proved.answers[name],
            settings=self._settings,
            failed=failed,
            compared_weights=proved.compared_weights.get(name),
        )
        kinds = {item.kind for item in explained.findings}
        where = next((item.where for item in explained.findings if item.where), None)
        own = [replace(item, where=item.where or where) for item in judgement.findings if item.kind not in kinds]
        return messages.causes([*explained.findings, *own], seen=probed.findings)
