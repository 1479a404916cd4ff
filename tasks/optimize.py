"""optimize: make candidates for several runtimes from one exported program."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddleship.config import catalogue, preflight
from paddleship.config.catalogue import PROGRAM
from paddleship.config.params import Params
from paddleship.conversion import calibration
from paddleship.conversion.converting import ConversionResult, Converter
from paddleship.custody import candidates, chain, libraries
from paddleship.data import dataset
from paddleship.image import requirements
from paddleship.model.eager import SourceModel
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import new_folder
from paddleship.stage.frame import main


def optimize(params: Params) -> Report:
    """Make every candidate that optimize.candidates chooses; one that cannot be made is a row with its reason."""
    preflight.require_cores(params.optimize.threads)
    names = catalogue.chosen(params.optimize.candidates)
    begun = chain.begin(params, "optimize", versions=libraries.versions())
    preprocess, _, specs = dataset.read_preprocess(Path(params.paths.prepared))
    candidates.require_consistent(Candidate.load(Path(params.paths.exported), stage="export"), params, name=PROGRAM, inputs=specs)
    rows = dataset.read(Path(params.paths.prepared), "validation")
    rows = rows.take(range(min(2, len(rows))))
    probe = preprocess.collate(dataset.encode(preprocess, rows))
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch, new_folder(Path(params.paths.candidates)) as folder:
        converter = Converter(
            Path(params.paths.exported),
            Path(scratch),
            threads=params.optimize.threads,
            probe=probe,
            timeout_s=params.optimize.timeout_s,
            batches=calibration.batches(Path(params.paths.prepared), count=params.optimize.calibration_rows),
            tune_seconds=params.optimize.tune_seconds,
            source_model=SourceModel.of(params),
            requirements=requirements.folder(),
        )
        for name in names:
            print(f"{name}: converting")
            outcome = converter.make(name, folder / name)
            print(f"{name}: " + (f"made, {outcome.bytes / 1e6:.3g} MB" if outcome.made else f"not available because {outcome.reason}"))
            outcomes.append(outcome)
        begun.seal(folder)
    made = [outcome for outcome in outcomes if outcome.made]
    return Report(
        stage="optimize",
        headline=f"{len(made)} of {len(outcomes)} candidates made",
        metrics={"candidates_made": len(made), "candidates_failed": len(outcomes) - len(made)},
        verdict=Verdict(checks=checks(outcomes)),
        candidates={outcome.name: _row(outcome) for outcome in outcomes},
        facts={"not_tried": catalogue.left_out(names)},
    )


def checks(outcomes: Sequence[ConversionResult]) -> list[Check]:
    """At least one candidate must be made."""
    advice = "no candidate could be made: the report of optimize has the reason of each"
    return [Check.at_least("candidates_made", sum(outcome.made for outcome in outcomes), 1, advice=advice)]


def _row(outcome: ConversionResult) -> dict[str, Any]:
    return {
        "status": Status.MADE if outcome.made else Status.FAILED,
        "reason": outcome.reason,
        "runtime": outcome.runtime,
        "precision": outcome.precision,
        "file_bytes": outcome.bytes,
        "settings": ", ".join(f"{key}={value}" for key, value in outcome.settings.items()),
        "tried": "; ".join(map(str, outcome.trials)),
    }


if __name__ == "__main__":
    main(optimize)
