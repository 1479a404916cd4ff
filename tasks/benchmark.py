"""benchmark: measure eager, to_static and every proven candidate side by side, and choose the winner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.benchmark import benchmarking, load_scenarios, result_table, samples, selection
from paddleship.benchmark.comparison import Comparison
from paddleship.benchmark.load_scenarios import ScenarioResults
from paddleship.benchmark.participants import Participants
from paddleship.benchmark.sampling import speedup
from paddleship.benchmark.selection import Choice
from paddleship.benchmark.workload import Workload
from paddleship.config import preflight
from paddleship.config.catalogue import EAGER
from paddleship.config.params import Params
from paddleship.custody import chain, libraries, proofs
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.plots import charts
from paddleship.proof import parity
from paddleship.proof.evidence import Evidence
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.stage.frame import main
from paddleship.system import host, locks

_NUMBERS = (
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "throughput_per_s",
    "load_ms",
    "first_call_ms",
    "cold_start_ms",
    "peak_memory_bytes",
    "peak_device_memory_bytes",
    "file_bytes",
    "noise_ratio",
)


def benchmark(params: Params) -> Report:
    """Measure latency, throughput, memory and cold start on real rows, and choose by select.objective."""
    begun = chain.begin(params, "benchmark", versions=libraries.versions())
    participants = Participants(params, proofs.read(params))
    participants.require_proven()
    preflight.require_cores(params.optimize.threads)
    preflight.require_choice(params.select, {name: participants.image_bytes(name) for name in participants.proven})
    workload, sizes = Workload.of(Path(params.paths.prepared)), params.benchmark.batch_sizes
    preflight.require_memory(sizes, rows=len(workload.examples), row_bytes=workload.row_bytes, processes=len(list(participants)) + 1)
    with locks.turn_on_machine("benchmark", say=lambda line: print(line, flush=True)):
        return _measure(params, participants, workload, workload.batches(sizes), begun)


def _measure(
    params: Params, participants: Participants, workload: Workload, batches: Mapping[int, Sequence[Batch]], begun: chain.Begun
) -> Report:
    """Measure and choose; no other benchmark runs on this machine meanwhile."""
    proven = list(participants.proven)
    print(f"measuring {', '.join(participants)} side by side: one start of each, then up to {params.benchmark.max_seconds:g} s")
    comparison = _race(params, participants, batches)
    table, findings = participants.table(comparison), comparison.findings(params.benchmark.max_busy_share)
    for name, row in table.items():
        if row["status"] != Status.MEASURED:
            print(f"{name}: {row['status']}: {row['reason']}")
    checks = _checks(table, proven, params.select.candidate)
    if not all(check.passed for check in checks):
        _keep(comparison, params, begun)
        return Report(
            stage="benchmark",
            headline="no candidate is left to choose",
            verdict=Verdict(checks=checks),
            findings=findings,
            candidates=table,
            facts=result_table.facts(comparison),
        )
    choice = _choose(comparison, table, participants, params)
    if choice.candidate is None:
        _keep(comparison, params, begun)
        verdict = Verdict(checks=[*checks, *choice.checks])
        facts = {"took_no_part": choice.refused, **result_table.facts(comparison)}
        return Report(stage="benchmark", headline=choice.reason, verdict=verdict, findings=findings, candidates=table, facts=facts)
    chosen = table[choice.candidate]
    chosen["winner"] = True
    under_load = {name: _measure_load(params, participants, name, workload) for name in ("eager", choice.candidate)}
    checks += under_load[choice.candidate].checks(params.benchmark.slo_p99_ms)
    gain = {key: chosen[key] for key in ("speedup", "speedup_low", "speedup_high")}
    disturbed = comparison.disturbed(params.benchmark.max_busy_share)
    measured = {"measured_on": host.describe(), "benchmark_valid": not disturbed}
    _keep(
        comparison, params, begun, {"candidate": choice.candidate, "digest": chosen["digest"], "reason": choice.reason, **gain, **measured}
    )
    shown = {name: row for name, row in table.items() if row["status"] == Status.MEASURED}
    interval = f"95% interval {gain['speedup_low']:.1f} to {gain['speedup_high']:.1f}"
    return Report(
        stage="benchmark",
        headline=f"{choice.candidate}: {gain['speedup']:.1f}× eager ({interval}), p50 {chosen['p50_ms']:.3g} ms"
        f"{', not valid: the machine was not free' if disturbed else ''}",
        metrics={
            **gain,
            **{key: chosen[key] for key in _NUMBERS if chosen.get(key) is not None},
            **{key: value for key, value in under_load[choice.candidate].to_dict().items() if isinstance(value, float)},
            "eager_p50_ms": table["eager"]["p50_ms"],
        },
        verdict=Verdict(checks=checks),
        findings=findings,
        candidates=table,
        facts={
            **measured,
            "winner": choice.candidate,
            "winner_speedup": comparison.speedups_of(choice.candidate),
            "chosen_by": choice.metric,
            "reason": choice.reason,
            "took_no_part": choice.refused,
            "threads": params.optimize.threads,
            "gpu_pays_from_batch_size": participants.gpu_pays_from(comparison),
            "loop": "closed",
            "batch_size": comparison.size,
            **result_table.facts(comparison),
            "scenarios": {name: one.to_dict() for name, one in under_load.items()},
            "curves": result_table.curves(comparison, batches),
        },
        pictures=_draw(shown, choice.candidate, params, disturbed=bool(disturbed)),
    )


def _race(params: Params, participants: Participants, batches: Mapping[int, Sequence[Batch]]) -> Comparison:
    """Measure the baselines and all proven candidates; after its load, each answers the real rows of the evidence once more."""
    evidence = Evidence.load(Path(params.paths.parity)).only(lambda case: bool(case.rows))

    def judge(name: str, answers: list[Arrays]) -> str:
        judgement = parity.judge(evidence, answers, limits=params.verify, precision=participants.precision(name))
        return "; ".join(str(check) for check in judgement.checks if not check.passed)

    return benchmarking.compare(
        {name: participants.load(name) for name in participants},
        batches,
        params.benchmark,
        thread_count=params.optimize.threads,
        questions=[case.inputs for case in evidence.cases],
        judge=judge,
        on_gpu=any(participants.on_gpu(name) for name in participants),
    )


def _keep(comparison: Comparison, params: Params, begun: chain.Begun, decision: Mapping[str, Any] | None = None) -> None:
    """Write every sample, and the decision if there is one; an earlier decision is removed."""
    with new_folder(Path(params.paths.benchmark)) as beside:
        samples.write(comparison, beside)
        if decision is not None:
            (beside / "choice.json").write_text(json.dumps(decision, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        begun.seal(beside)


def _measure_load(params: Params, participants: Participants, name: str, workload: Workload) -> ScenarioResults:
    """Run one model in the scenarios of MLPerf Inference, on real rows."""
    print(f"{name}: running the scenarios of MLPerf Inference")
    threads = params.optimize.threads
    return load_scenarios.measure(
        name, participants.load(name), workload, settings=params.benchmark, thread_count=threads, seed=params.seed
    )


def _choose(comparison: Comparison, table: Mapping[str, Mapping[str, Any]], participants: Participants, params: Params) -> Choice:
    measured = {name: table[name] for name in participants.proven if table[name]["status"] == Status.MEASURED}
    measurements, aa_ratio = comparison.measurements, comparison.aa_ratio
    return selection.choose(
        measured,
        params.select,
        compare=lambda one, other: speedup(measurements[one], measurements[other], comparison.size),
        floor=aa_ratio.reach if aa_ratio else 1.0,
        eager=table["eager"],
        absent=participants.absent(EAGER, table),
    )


def _draw(rows: Mapping[str, Mapping[str, Any]], winner: str, params: Params, *, disturbed: bool) -> list[str]:
    reports = Path(params.paths.reports)
    size = params.benchmark.batch_sizes[0]
    note = "not valid: the machine was not free" if disturbed else ""
    drawn = [charts.latency(rows, winner, reports, "benchmark/latency.png", batch_size=size, note=note)]
    scored = {name: row for name, row in rows.items() if row["metric"] is not None}
    if winner in scored:
        score = task_kinds.get(params.data.task).score
        path = "benchmark/pareto.png"
        drawn.append(charts.pareto(scored, winner, score.title, reports, path, batch_size=size, note=note, ends=score.range))
    return drawn


def _checks(table: Mapping[str, Mapping[str, Any]], proven: Sequence[str], wished: str | None) -> list[Check]:
    measured = sum(table[name]["status"] == Status.MEASURED for name in proven)
    reasons = "; ".join(f"{name}: {table[name]['reason']}" for name in proven[:1])
    checks = [
        Check.at_least("measured_candidates", measured, 1, advice=f"no proven candidate survived the benchmark ({reasons})"),
        Check.at_least(
            "measured_baseline",
            int(table["eager"]["status"] == Status.MEASURED),
            1,
            advice=f"eager failed ({table['eager']['reason']}), and every speedup is relative to it: fix that first",
        ),
    ]
    if wished is not None and (status := table[wished]["status"]) != Status.MEASURED:
        advice = f"{table[wished]['reason']}: choose another select.candidate, or null"
        checks.append(Check(name=f"select.candidate {wished}", measured=status, limit=Status.MEASURED, passed=False, advice=advice))
    return checks


if __name__ == "__main__":
    main(benchmark)
