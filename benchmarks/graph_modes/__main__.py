"""compare_graph_modes: run the same networks in every graph mode of Paddle and PyTorch, and check common claims on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.graph_modes import charts, claims, comparison, markdown_page, network_setup
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.config.graph_modes import MODES, REFERENCE, ModeName
from paddleship.config.params import Params
from paddleship.errors import BadInput
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.files import write_text
from paddleship.stage.frame import main
from paddleship.system import host, isolate, locks

STAGE = "compare-graph-modes"
PAGE = "compare-graph-modes.md"
Found = dict[str, dict[ModeName, ModeResult]]


def compare_graph_modes(params: Params) -> Report:
    """Measure all modes of each network, judge the claims, and write the page and its pictures."""
    settings, reports = params.graph_modes, Path(params.paths.reports)
    devices = isolate.run("devices", network_setup.device_count, timeout_s=settings.timeout_s)
    device = "gpu" if devices else "cpu"
    found: Found = {}
    missing: dict[str, str] = {}
    with locks.turn_on_machine("benchmark", say=_say):
        for network in settings.networks:
            with tempfile.TemporaryDirectory(prefix="paddleship-modes-") as folder:
                try:
                    made = network_setup.make(network, params, Path(folder), device=device)
                    found[network] = comparison.compare(made, settings.modes or list(MODES), settings, say=_say)
                except BadInput as error:
                    missing[network] = str(error)
                    _say(f"{network}: {error}")
    results = claims.settle(found, devices=devices)
    text = markdown_page.markdown(found, results, facts=_facts(params, device, found, missing), host=host.fingerprint())
    write_text(reports / PAGE, text)
    checks = [_enough(network, found.get(network, {}), missing.get(network)) for network in settings.networks]
    return Report(
        stage=STAGE,
        headline=markdown_page.summary(results),
        metrics=_metrics(results),
        verdict=Verdict(checks=checks),
        candidates={f"{network}/{mode}": _row(row) for network, rows in found.items() for mode, row in rows.items()},
        facts={
            "page": PAGE,
            "device": device,
            "threads": settings.threads,
            "claims": [_plain(result) for result in results],
            "losses": {f"{network}/{mode}": row.losses for network, rows in found.items() for mode, row in rows.items()},
            "samples": {f"{network}/{mode}": _samples(row) for network, rows in found.items() for mode, row in rows.items()},
            "not_run": missing,
        },
        pictures=_draw(found, results, reports),
    )


def _enough(network: str, rows: Mapping[ModeName, ModeResult], missing: str | None) -> Check:
    """A comparison needs two modes; the advice is the reason why there are fewer."""
    reasons = [missing, *(row.reason for row in rows.values() if not row.measured)]
    return Check.at_least(f"measured_{network}", sum(row.measured for row in rows.values()), 2, advice=next(filter(None, reasons), ""))


def _say(line: str) -> None:
    print(line, flush=True)


def _facts(params: Params, device: str, found: Found, missing: dict[str, str]) -> list[str]:
    settings = params.graph_modes
    versions = {MODES[row.mode].framework: row.facts["version"] for rows in found.values() for row in rows.values() if row.facts}
    facts = [
        ", ".join(f"{name.capitalize()} {version}" for name, version in sorted(versions.items())) + ".",
        f"{settings.rounds} interleaved blocks over {settings.starts} starts on the {device}, "
        f"{settings.threads} thread{'s' if settings.threads > 1 else ''}, "
        f"seed {params.seed}, {'full' if settings.full else 'small'} sizes.",
        "Every mode starts from the same weights and takes the same batches; before anything is timed, its answers and first losses must "
        f"be within {settings.noise_limit:g} × eager float32's own error of a float64 run (column noise).",
        "Medians. First step: from building the network to the first loss, framework imported.",
    ]
    return [*facts, *(f"{network} was not run: {reason}" for network, reason in missing.items())]


def _samples(row: ModeResult) -> dict[str, list[list[float]]]:
    return {quantity: row.blocks(quantity) for quantity in row.timed}


def _row(row: ModeResult) -> dict[str, Any]:
    """One flat row with the same keys for every mode; `noise_ratio` is the larger one of answers and losses."""
    facts = row.facts
    noises = [facts[key] for key in ("answer_noise", "loss_noise") if facts.get(key) is not None]
    return {
        "status": "measured" if row.measured else "failed",
        "reason": row.reason,
        "runtime": MODES[row.mode].framework,
        "precision": "float32",
        **{quantity: row.median(quantity) for quantity in comparison.QUANTITIES},
        "first_step_s": facts.get("first_step_s"),
        "first_answer_s": facts.get("first_answer_s"),
        "import_s": facts.get("import_s"),
        "peak_memory_bytes": row.peak_memory_bytes,
        "lines": facts.get("lines"),
        "deploys": None if row.deploys is None else int(row.deploys),
        "deploys_reason": row.deploys_reason,
        "noise_ratio": max(noises, default=None),
        "winner": False,
    }


def _metrics(results: list[claims.ClaimResult]) -> dict[str, float | int]:
    """The number of results per conclusion, and every ratio."""
    ratios = {
        f"{result.claim.quantity.removesuffix('_ms')}_ratio/{result.network}/{result.pair[1]}": result.ratio
        for result in results
        if result.ratio is not None and result.pair
    }
    words = {
        word.replace(" ", "_"): sum(result.conclusion == word for result in results) for word in ("confirmed", "refuted", "cannot tell")
    }
    return {**words, **ratios}


def _plain(result: claims.ClaimResult) -> dict[str, Any]:
    return {
        "claim": result.claim.text,
        "claimed": [result.claim.low, result.claim.high],
        "network": result.network,
        "pair": list(result.pair or ()),
        "conclusion": result.conclusion,
        "ratio": result.ratio,
        "interval": [result.low, result.high],
        "reason": result.reason,
    }


def _draw(found: Found, results: list[claims.ClaimResult], reports: Path) -> list[str]:
    drawn = []
    for network, rows in found.items():
        drawn.append(charts.times(network, rows, reports, f"{STAGE}/times-{network}.png"))
        if rows[REFERENCE].losses:
            drawn.append(charts.losses(network, rows, reports, f"{STAGE}/loss-{network}.png"))
    if any(result.ratio is not None for result in results):
        drawn.append(charts.claims(results, reports, f"{STAGE}/claims.png"))
    return drawn


if __name__ == "__main__":
    main(compare_graph_modes)
