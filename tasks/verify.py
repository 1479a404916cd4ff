"""verify: every candidate against the eager model, on rows that training never saw and at the edges."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from paddleship import answering, controlflow, dataset, diagnosis, exhibits, inputs, past, proof, training_parity
from paddleship.candidate import Candidate
from paddleship.diagnosis import Diagnosis
from paddleship.eager import Subject
from paddleship.errors import ModelError
from paddleship.evidence import ROWS
from paddleship.files import new_folder
from paddleship.finding import Finding
from paddleship.params import Params
from paddleship.parity import Judgement
from paddleship.preprocess import Preprocess
from paddleship.proof import Proof
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks.stage import main

_MEASURES = (
    "noise_ratio", "typical_ratio", "batch_ratio", "repeat_ratio", "threads_ratio",
    "max_abs_diff", "max_rel_diff", "required_atol", "max_ulp", "cosine",
    "flip_rate", "flip_rate_low", "flip_rate_high", "metric_drop", "metric_drop_low", "metric_drop_high",
)  # fmt: skip


def verify(params: Params) -> Report:
    """Judge the candidates by the float64 truth and the eager model's own error; the gate is that one at least is proven."""
    preprocess, config, specs = dataset.read_preprocess(Path(params.paths.prepared))
    held_out = dataset.read(Path(params.paths.prepared), "test")
    rows = held_out.take(range(min(params.verify.samples, len(held_out))))
    examples = dataset.encode(preprocess, rows)
    real = inputs.from_rows(examples, specs, preprocess.collate, max_batch=params.verify.max_batch)
    known = past.read(Path(params.paths.regression), specs)
    cases = [*real, *inputs.edges(specs, [case.inputs for case in real]), *known]

    table: dict[str, dict[str, Any]] = {}
    contenders: dict[str, answering.Contender] = {}
    for name in params.optimize.candidates:
        table[name], contender = _entry(Path(params.paths.candidates) / name, config)
        if contender:
            contenders[name] = contender
    proved = proof.prove(Subject.of(params), cases, contenders, settings=params.verify, task=params.data.task, labels=rows.labels)
    if refused := [name for name, _ in proved.refused.items() if name in {case.name for case in real}]:
        raise ModelError(f"the eager model fails on real rows ({refused[0]}): {proved.refused[refused[0]]}")
    exported = Path(params.paths.exported)
    decisions = controlflow.of(exported, [program.folder for program in Candidate.load(exported).programs])
    coverage, ways = controlflow.judge(decisions, proved.taken, require_coverage=params.verify.require_branch_coverage)
    for finding in coverage:
        print(finding)
    sound = not any(finding.severity == "error" for finding in proved.findings)
    for contestant, judgement in proved.judgements.items():
        table[contestant] = table.get(contestant, _row()) | _judged(judgement, proven=bool(judgement) and sound)
    diagnoses = _explain(params, proved, config)
    for contestant, cause in diagnoses.items():
        table[contestant]["findings"] += [finding.to_dict() for finding in cause.findings]
    passed = {name: row["noise_ratio"] for name, row in table.items() if row["status"] == "proven" and name in contenders}

    with new_folder(Path(params.paths.parity)) as beside:
        proved.evidence.save(beside)
        (beside / "passed.json").write_text(json.dumps(passed) + "\n")
    asked = proved.evidence.cases
    past.write(
        Path(params.paths.regression), known, [asked[judgement.worst] for judgement in proved.judgements.values() if judgement.checks]
    )
    report = _report(params, proved, diagnoses, table, passed)
    report.metrics |= ways
    report.facts["findings"] += [finding.to_dict() for finding in coverage]
    uncovered = [finding for finding in coverage if finding.kind == "uncovered-branch" and finding.severity == "error"]
    if params.verify.require_branch_coverage:
        advice = f"{uncovered[0].message} at {uncovered[0].where}: {uncovered[0].advice}" if uncovered else ""
        report.verdict = Verdict(checks=[*report.verdict.checks, Check.at_most("uncovered_branches", len(uncovered), 0, advice=advice)])
    return _with_training(params, preprocess, report) if params.verify.training else report


def _report(
    params: Params, proved: Proof, diagnoses: dict[str, Diagnosis], table: dict[str, dict[str, Any]], passed: dict[str, float]
) -> Report:
    evidence = proved.evidence
    ratios = {name: row["noise_ratio"] for name, row in table.items() if row["noise_ratio"] is not None and row["precision"] == "float32"}
    proven_ratios = [ratio for name, ratio in ratios.items() if name in passed]
    own_error = max((noise.largest / noise.scale for noise in evidence.noise[ROWS].values() if noise.scale), default=0.0)
    return Report(
        stage="verify",
        headline=f"{len(passed)} of {len(params.optimize.candidates)} candidates proven"
        + (f", noise ratio {min(proven_ratios):.2f} to {max(proven_ratios):.2f}" if proven_ratios else ""),
        metrics={
            "proven_candidates": len(passed),
            "verified_rows": len({row for case in evidence.cases for row in case.rows}),
            "verified_batches": len(evidence.cases),
            "reference_error_log10": round(math.log10(own_error), 3) if own_error else 0.0,
        },
        verdict=Verdict(checks=_checks(proved, passed)),
        candidates=table,
        facts={
            "rule": evidence.rule,
            "why": evidence.why,
            "noise": {group: {name: noise.__dict__ for name, noise in rows.items()} for group, rows in evidence.noise.items()},
            "cases": [{"name": case.name, "group": case.group, "rows": len(case.rows)} for case in evidence.cases],
            "refused": proved.refused,
            "findings": [finding.to_dict() for finding in proved.findings],
            "outputs": {name: judgement.outputs for name, judgement in proved.judgements.items()},
        },
        pictures=exhibits.draw(
            proved,
            ratios,
            diagnoses,
            limit=params.verify.noise_limit,
            classes=params.data.classes,
            reports=Path(params.paths.reports),
        ),
    )


def _checks(proved: Proof, passed: dict[str, float]) -> list[Check]:
    errors = [finding for finding in proved.findings if finding.severity == "error"]
    advice = "no candidate answers as eager does: see the findings in the report"
    return [
        Check.at_least("proven_candidates", len(passed), 1, advice=advice),
        Check.at_most("eager_errors", len(errors), 0, advice=f"the model itself cannot be proven: {errors[0].message}" if errors else ""),
    ]


def _with_training(params: Params, preprocess: Preprocess, report: Report) -> Report:
    """The report with what a few steps of training in eager mode and as `to_static` say."""
    rows = dataset.read(Path(params.paths.prepared), "train")
    count = min(len(rows), params.train.batch_size * params.verify.training_steps)
    examples = dataset.encode(preprocess, rows.take(range(count)))
    starts = range(0, count, params.train.batch_size)
    ends = [min(start + params.train.batch_size, count) for start in starts]
    batches = [(preprocess.collate(examples[start:end]), rows.labels[start:end]) for start, end in zip(starts, ends, strict=True)]
    print(f"training {len(batches)} steps, eager and to_static")
    trained = training_parity.compare(Subject.of(params), batches, params.train, task=params.data.task, settings=params.verify)
    for finding in trained.findings:
        print(finding)
    report.verdict = Verdict(checks=[*report.verdict.checks, *trained.checks])
    report.facts |= {"training": {"losses": trained.losses, "gradient_ratios": trained.ratios}}
    report.facts["findings"] += [finding.to_dict() for finding in trained.findings]
    report.pictures += trained.draw(params.verify.noise_limit, Path(params.paths.reports))
    return report


def _explain(params: Params, proved: Proof, config: dict[str, Any]) -> dict[str, Diagnosis]:
    """Why each candidate that failed did so, for people as it is found."""
    found = {}
    for name, judgement in proved.judgements.items():
        if judgement:
            continue
        print(f"{name}: looking for the cause")
        folder = None if name == proof.TO_STATIC else Path(params.paths.candidates) / name
        found[name] = diagnosis.explain(
            Subject.of(params),
            folder,
            evidence=proved.evidence,
            answers=proved.answers[name],
            settings=params.verify,
            failed=[check.name for check in judgement.checks if not check.passed],
            preprocess=config,
        )
        for finding in found[name].findings:
            print(f"{name}: {finding}")
    return found


def _entry(folder: Path, config: dict[str, Any]) -> tuple[dict[str, Any], answering.Contender | None]:
    """The row of a candidate before it is asked, and the contender if it can be. Raises CandidateError for a changed folder."""
    if not folder.exists():
        return _row() | {"status": "not made", "reason": "see the report of optimize"}, None
    candidate = Candidate.load(folder)
    if candidate.preprocess != config:
        finding = Finding("preprocess-differs", "error", "the candidate prepares its inputs in another way than the data was prepared")
        return _row() | {"reason": f"{finding.message}: run `dvc repro -f optimize`", "findings": [finding.to_dict()]}, None
    return _row() | {"precision": candidate.precision}, answering.candidate(
        folder, precision=candidate.precision, thread_count=candidate.threads
    )


def _row() -> dict[str, Any]:
    return {"status": "failed", "reason": "", "precision": "float32", "worst_case": "", "findings": [], **dict.fromkeys(_MEASURES)}


def _judged(judgement: Judgement, *, proven: bool) -> dict[str, Any]:
    return {
        "status": "proven" if proven else "failed",
        "reason": "; ".join(str(check) for check in judgement.checks if not check.passed),
        "worst_case": judgement.worst_case,
        "findings": [finding.to_dict() for finding in judgement.findings],
        **{key: judgement.metrics.get(key) for key in _MEASURES},
    }


if __name__ == "__main__":
    main(verify)
