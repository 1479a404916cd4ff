"""verify: every candidate against the eager model, on rows that training never saw."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from paddleship import dataset, eager, isolate, parity, pictures, runtimes
from paddleship.errors import BadInput
from paddleship.files import new_folder
from paddleship.params import Params
from paddleship.preprocess import Batch
from paddleship.progress import Progress
from paddleship.report import Report
from paddleship.runtimes import Arrays
from paddleship.verdict import Check, Verdict
from tasks.stage import main


def verify(params: Params) -> Report:
    """Judge the candidates by the float64 truth and the eager model's own error; the gate is that one at least is proven."""
    preprocess, _, _ = dataset.read_preprocess(Path(params.paths.prepared))
    rows = dataset.read(Path(params.paths.prepared), "test")
    examples = dataset.encode(preprocess, rows.take(range(min(params.verify.samples, len(rows)))))
    cases = parity.make_cases([sum(array.size for array in example.values()) for example in examples], max_batch=params.verify.max_batch)
    batches = [preprocess.collate([examples[row] for row in case.rows]) for case in cases]
    ask = partial(_ask, timeout_s=params.verify.timeout_s)

    reference = ask("eager", batches, eager.load, eager.Subject.of(params))
    truth, obstacle = _truth(params, reference, batches, ask)
    alone: dict[int, Arrays] = {}
    if truth is None:
        print(f"float64 is not to be had ({obstacle}): measuring eager's own noise instead")
        single = range(min(32, len(examples)))
        alone = dict(
            zip(
                single,
                ask("eager, rows alone", [preprocess.collate([examples[row]]) for row in single], eager.load, eager.Subject.of(params)),
                strict=True,
            )
        )
    evidence = parity.gather(cases, reference, truth, classifier=params.data.task == "classification", alone=alone)

    table: dict[str, dict[str, Any]] = {}
    for name in params.optimize.candidates:
        table[name] = _judge(name, Path(params.paths.candidates) / name, evidence, batches, params)
    passed = {name: row["noise_ratio"] for name, row in table.items() if row["status"] == "proven"}
    with new_folder(Path(params.paths.parity)) as beside:
        evidence.save(beside)
        (beside / "passed.json").write_text(json.dumps(passed) + "\n")
    ratios = {name: row["noise_ratio"] for name, row in table.items() if row["noise_ratio"] is not None}
    reports = Path(params.paths.reports)
    return Report(
        stage="verify",
        headline=f"{len(passed)} of {len(table)} candidates proven"
        + (f", noise ratio {min(ratios.values()):.2f} to {max(ratios.values()):.2f}" if ratios else ""),
        metrics={
            "proven_candidates": len(passed),
            "verified_rows": len(examples),
            "verified_batches": len(cases),
            "reference_error_log10": round(math.log10(max(evidence.noise.values())), 3),
        },
        verdict=Verdict(
            checks=[
                Check.at_least(
                    "proven_candidates", len(passed), 1, advice="no candidate answers as eager does: see the reasons in the report"
                )
            ]
        ),
        candidates=table,
        facts={"rule": evidence.rule, "why": obstacle, "noise": evidence.noise, "cases": [case.name for case in cases]},
        pictures=[pictures.noise(ratios, params.verify.noise_limit, reports, "verify/noise.png")] if ratios else [],
    )


def _truth(
    params: Params, reference: list[Arrays], batches: list[Batch], ask: Callable[..., list[Arrays]]
) -> tuple[list[Arrays] | None, str]:
    """The float64 answers, or None and the reason why they cannot be had."""
    try:
        truth = ask("eager float64", batches, eager.load_truth, eager.Subject.of(params))
    except BadInput as error:
        return None, str(error)
    for name, array in reference[0].items():
        if array.dtype.kind == "f" and (name not in truth[0] or truth[0][name].dtype != "float64"):
            return None, f"output {name!r} stays {truth[0][name].dtype if name in truth[0] else 'absent'} in a float64 model"
    return truth, ""


def _judge(name: str, folder: Path, evidence: parity.Evidence, batches: list[Batch], params: Params) -> dict[str, Any]:
    row: dict[str, Any] = {
        "status": "failed",
        "reason": "",
        "noise_ratio": None,
        "max_abs_diff": None,
        "max_rel_diff": None,
        "flip_rate": None,
        "worst_case": "",
    }
    if not folder.exists():
        return row | {"status": "not made", "reason": "see the report of optimize"}
    try:
        answers = _ask(name, batches, runtimes.load, folder, timeout_s=params.verify.timeout_s, threads=params.optimize.threads)
    except BadInput as error:
        print(f"{name}: {error}")
        return row | {"reason": str(error)}
    judgement = parity.judge(evidence, answers, noise_limit=params.verify.noise_limit)
    reason = "; ".join(str(check) for check in judgement.checks if not check.passed)
    print(f"{name}: " + (f"proven, noise ratio {judgement.metrics['noise_ratio']:.2f}" if judgement else f"not proven: {reason}"))
    metrics = {key: value for key, value in judgement.metrics.items() if key in row}
    return row | {"status": "proven" if judgement else "failed", "reason": reason, "worst_case": judgement.worst_case} | metrics


def _ask(name: str, batches: list[Batch], load: Callable[..., Any], *arguments: Any, timeout_s: float, threads: int = 1) -> list[Arrays]:
    """Let one model, in a process of its own, answer all batches."""
    progress = Progress(f"{name}: answering", len(batches), "batches")
    answers = []
    with isolate.Isolated(name, load, *arguments, timeout_s=timeout_s, environment=isolate.threads(threads)) as child:
        for batch in batches:
            answers.append(child.call("run", batch))
            progress.advance()
    return answers


if __name__ == "__main__":
    main(verify)
