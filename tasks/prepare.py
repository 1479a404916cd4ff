"""prepare: raw data to clean, repeat-free, split rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paddleship import dataset, pictures
from paddleship.errors import DataError
from paddleship.files import new_folder
from paddleship.params import Params
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks.stage import main


def prepare(params: Params) -> Report:
    """Read the raw data, clean and split it, and write Parquet with the schema of its preprocessing."""
    splits, counts = dataset.clean(dataset.read_raw(params.data), params.data)
    schema = dataset.describe(splits, params)
    folder = Path(params.paths.prepared)
    with new_folder(folder) as beside:
        dataset.write(splits, schema, beside)
    preprocess, _, _ = dataset.read_preprocess(folder)
    written = {split: dataset.read(folder, split) for split in dataset.SPLITS}
    examples = {split: dataset.encode(preprocess, rows) for split, rows in written.items()}
    keys = {split: set(rows.keys) for split, rows in written.items()}
    leaks = len(keys["train"] & keys["validation"]) + len(keys["train"] & keys["test"]) + len(keys["validation"] & keys["test"])
    lengths = [max(array.shape[0] if array.ndim else 1 for array in example.values()) for example in examples["train"]]
    facts = {
        "data_sha256": schema["data_sha256"],
        "rows": {split: len(rows) for split, rows in written.items()},
        "dropped": {reason: counts.get(reason, 0) for reason in ("empty", "repeated", "contradictory")},
        "length": dict(
            zip(("p50", "p90", "p99", "max"), np.percentile(lengths, [50, 90, 99, 100]).round().astype(int).tolist(), strict=True)
        ),
    }
    reports = Path(params.paths.reports)
    shown = [
        pictures.histogram(
            np.ravel(written["train"].labels), reports, "prepare/labels.png", title="Labels of training rows", unit=params.data.label
        )
    ]
    if len(set(lengths)) > 1:
        shown.append(pictures.histogram(lengths, reports, "prepare/length.png", title="Length of training rows", unit="elements"))
    if params.data.task == "classification":
        labels = written["train"].labels
        names = params.data.classes or [str(label) for label in np.unique(labels)]
        facts["class_share"] = {name: round(float((labels == index).mean()), 4) for index, name in enumerate(names)}
        if len(np.unique(labels)) < 2:
            raise DataError(f"the training part has one class only (label {labels[0]}): a classifier needs two; check data.label")
    return Report(
        stage="prepare",
        headline=f"{counts['kept']:,} rows of {counts['rows']:,}, {facts['dropped']['repeated']:,} repeats dropped, {leaks} leaks",
        metrics={**{f"{split}_rows": len(rows) for split, rows in written.items()}, "raw_rows": counts["rows"], "leaked_rows": leaks},
        verdict=Verdict(checks=[Check.at_most("leaked_rows", leaks, 0, advice="a row is in two parts: report it as a defect")]),
        facts=facts,
        pictures=shown,
    )


if __name__ == "__main__":
    main(prepare)
