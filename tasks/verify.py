"""verify: compare every candidate with the eager model, on held-out rows and edge cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.config import catalogue
from paddleship.config.params import Params
from paddleship.controlflow import regions
from paddleship.custody import candidates, chain, libraries, proofs
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.diagnosis import explaining
from paddleship.diagnosis.explaining import Diagnosis
from paddleship.diagnosis.verify_report import Verified, row
from paddleship.errors import CandidateError, ModelError
from paddleship.model.eager import SourceModel
from paddleship.proof import answering, invariance, proving, rescoring, row_examples, training_parity
from paddleship.proof.answer_flips import Answer
from paddleship.proof.cases import id_cases, inputs, limits, missing_rows, regression_cases
from paddleship.proof.cases.searching import Search
from paddleship.proof.hidden_influences import influences
from paddleship.proof.proving import Proof
from paddleship.proof.reference import TO_STATIC
from paddleship.proof.training_parity import TrainingParity
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Batch, Example, Preprocess
from paddleship.shipped.computing.runtimes import nvidia
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.stage.frame import main
from paddleship.weights import candidate_files
from paddleship.weights.candidate_files import WeightFiles
from paddleship.weights.weight_comparison import WeightComparison


def verify(params: Params) -> Report:
    """Judge the candidates by the float64 truth and the eager model's own error; at least one must be proven."""
    prepared, max_batch = Path(params.paths.prepared), params.verify.max_batch
    if not Path(params.paths.candidates).is_dir():
        raise CandidateError(
            f"{params.paths.candidates} is missing, so there are no candidates: make them with `paddleship run --again optimize`"
        )
    begun = chain.begin(params, "verify", versions=libraries.versions())
    preprocess, config, specs = dataset.read_preprocess(prepared)
    dimensions = dataset.read_dimensions(prepared)
    held_out = dataset.read(prepared, "test")
    rows = held_out.take(range(min(params.verify.samples, len(held_out))))
    examples = dataset.encode(preprocess, rows)
    ends = limits.rows(prepared, preprocess, specs, dimensions, examples)
    real = inputs.from_rows(examples, specs, preprocess.collate, max_batch=max_batch, limits=ends)
    known = regression_cases.read(Path(params.paths.regression), specs, dimensions=dimensions, max_batch=max_batch)
    made_rows = missing_rows.made_from(held_out, preprocess)
    real += missing_rows.cases(dataset.encode(preprocess, made_rows), preprocess.collate, first=len(held_out), max_batch=max_batch)
    batches = [case.inputs for case in real]
    cases = [*real, *inputs.edges(specs, batches), *id_cases.walk(specs, batches, max_batch=max_batch)]
    cases += regression_cases.beyond(known, cases)

    program = Candidate.load(Path(params.paths.exported), stage="export")
    made = answers.load(Path(params.paths.exported), program)
    folder = Path(params.paths.candidates)
    entries = {name: _entry(folder / name, params, config, specs) for name in catalogue.chosen(params.optimize.candidates)}
    models_under_test: dict[str, answering.ModelUnderTest] = {
        name: model_under_test for name, (_, model_under_test) in entries.items() if model_under_test
    }
    compared_weights = _compare_weights(params, models_under_test)
    further = partial(_further, preprocess, held_out.take(range(len(rows), len(held_out))), max_batch)
    proved = proving.prove(
        SourceModel.of(params),
        cases,
        models_under_test,
        settings=params.verify,
        task=params.data.task,
        labels=rows.labels,
        compared_weights=compared_weights,
        answer=Answer(program.answer, made) if made is not None else None,
        search=Search(specs, Path(params.paths.exported), further, real=True, seed=params.seed),
    )
    print("scoring eager on the rows that train scored")
    rescored = rescoring.rescore(params, preprocess)
    hidden = influences.find(SourceModel.of(params), proved.evidence, timeout_s=params.verify.timeout_s)
    proved = replace(proved, findings=influences.add(hidden.findings, proved.findings))
    if refused := next((case for case in real if case.name in proved.refused), None):
        advice = "" if refused.rows else ": allow only sizes that it takes, in model.dimensions or preprocess"
        raise ModelError(f"the eager model fails on real rows ({refused.name}): {proved.refused[refused.name]}{advice}")
    branches, branch_counts = _control_flow(params, proved)
    verified = Verified(
        proved,
        {name: before for name, (before, _) in entries.items()},
        _explain(params, proved, config),
        branches,
        branch_counts,
        specs,
        _train(params, preprocess) if params.verify.training else None,
        rescoring.checks(rescored, task=params.data.task, min_score=params.train.min_score),
    )
    with new_folder(Path(params.paths.parity)) as beside:
        proved.evidence.save(beside)
        proofs.write(beside, verified.passed, params, _row_facts(params, proved, examples))
        proofs.write_mapped_libraries(beside, proved.mapped_libraries, nvidia.names())
        begun.seal(beside)
    worst = [proved.evidence.cases[judgement.worst] for judgement in proved.judgements.values()]
    regression_cases.write(Path(params.paths.regression), known, worst)
    report = verified.report(params)
    report.facts |= {"eager_arithmetic": str(proved.arithmetic), "influences": hidden.facts, "rescored": [asdict(one) for one in rescored]}
    report.facts["examples"] = _examples(proved, rows, params.data.class_names)
    return report


def _examples(proved: Proof, rows: Rows, classes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each candidate that answered: rows whose decision changed, and the row with the largest error."""
    found = {}
    for name, answers_of_rows in proved.answers.items():
        if answers_of_rows and proved.judgements[name].metrics:
            changed = row_examples.changed_decisions(proved.evidence, answers_of_rows, rows, classes)
            found[name] = {"changed": changed, "worst": row_examples.worst(proved.evidence, answers_of_rows, rows)}
    return found


def _row_facts(params: Params, proved: Proof, examples: Sequence[Example]) -> proofs.RowFacts:
    independent = invariance.rows_are_independent(proved.findings, params.verify, rows=len(examples))
    sizes = {tuple((name, array.shape) for name, array in example.items()) for example in examples}
    return proofs.RowFacts(independent, padded=len(sizes) > 1)


def _further(preprocess: Preprocess, rows: Rows, size: int) -> Iterator[Batch]:
    """The other rows of a part, in batches."""
    for start in range(0, len(rows), size):
        yield preprocess.collate(dataset.encode(preprocess, rows.take(range(start, min(start + size, len(rows))))))


def _entry(
    folder: Path, params: Params, config: dict[str, Any], specs: Sequence[TensorSpec]
) -> tuple[dict[str, Any], answering.ModelUnderTest | None]:
    """The row of a candidate before it is asked, and the model under test if there is one. Raises CandidateError for a changed folder."""
    if not folder.exists():
        return row(Status.NOT_MADE, "see the report of optimize", precision=catalogue.kinds()[folder.name].precision), None
    candidate = Candidate.load(folder)
    candidates.require_consistent(candidate, params, name=folder.name, inputs=specs)
    if candidate.preprocess != config:
        message, advice = "the candidate's preprocess differs from that of the prepared data", "run `paddleship run --again optimize`"
        finding = Finding("preprocess-differs", "error", message, advice)
        print(f"{folder.name}: {finding}")
        return row(Status.FAILED, f"{message}: {advice}", precision=candidate.precision, digest=candidate.digest, finding=finding), None
    model_under_test = answering.candidate(folder, precision=candidate.precision, thread_count=candidate.threads)
    return row(precision=candidate.precision, digest=candidate.digest), model_under_test


def _compare_weights(params: Params, names: Iterable[str]) -> dict[str, WeightComparison]:
    """Compare every weight in the files of the candidates and of the exported program with the checkpoint."""
    folders = {name: Path(params.paths.candidates) / name for name in names}
    files = WeightFiles(Path(params.paths.checkpoint), Path(params.paths.exported), folders)
    compared_weights = candidate_files.compare(files, timeout_s=params.verify.timeout_s)
    for problem in compared_weights[candidate_files.EXPORTED].problems():
        print(f"the exported program: {problem}")
    return compared_weights


def _control_flow(params: Params, proved: Proof) -> tuple[list[Finding], dict[str, float]]:
    """The sides of the program's control flow that inputs took."""
    decisions = regions.read(Path(params.paths.exported))
    agreed = bool(proved.judgements[TO_STATIC])
    return regions.judge(decisions, proved.taken_branches, require_coverage=params.verify.require_branch_coverage, agreed=agreed)


def _explain(params: Params, proved: Proof, config: dict[str, Any]) -> dict[str, Diagnosis]:
    """Explain every candidate that failed, and print each cause; with verify.layers also replay the layers of the others."""
    diagnoses = {}
    for name, judgement in proved.judgements.items():
        folder = None if name == TO_STATIC else Path(params.paths.candidates) / name
        if judgement and params.verify.layers:
            print(f"{name}: comparing layer by layer")
            diagnoses[name] = explaining.along(SourceModel.of(params), folder, proved.evidence, settings=params.verify)
        if judgement:
            continue
        print(f"{name}: looking for the cause")
        diagnoses[name] = explaining.explain(
            SourceModel.of(params),
            folder,
            evidence=proved.evidence,
            answers=proved.answers[name],
            settings=params.verify,
            failed=[check.name for check in judgement.checks if not check.passed],
            preprocess=config,
            compared_weights=proved.compared_weights.get(name),
            obstacle="" if proved.answers[name] else str(judgement.checks[0].measured),
        )
        for finding in diagnoses[name].findings:
            print(f"{name}: {finding}")
    return diagnoses


def _train(params: Params, preprocess: Preprocess) -> TrainingParity:
    """Train a few steps on the first rows, in eager mode and as `to_static`."""
    rows, size = dataset.read(Path(params.paths.prepared), "train"), params.train.batch_size
    count = min(len(rows), size * params.verify.training_steps)
    examples = dataset.encode(preprocess, rows.take(range(count)))
    kind, batches = task_kinds.get(params.data.task), []
    for start in range(0, count, size):
        place = slice(start, min(start + size, count))
        batch = preprocess.collate(examples[place])
        batches.append((batch, kind.batched(rows.labels[place], partial(preprocess.width, batch))))
    print(f"training {len(batches)} steps, eager and to_static")
    return training_parity.compare(SourceModel.of(params), batches, params.train, task=params.data.task, settings=params.verify)


if __name__ == "__main__":
    main(verify)
