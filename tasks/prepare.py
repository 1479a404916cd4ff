"""prepare: clean raw data, remove repeats, and split the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.config import watched
from paddleship.config.params import Params
from paddleship.custody import chain
from paddleship.data import dataset, missing_numbers, near_repeats, profile, truncation
from paddleship.data.dataset import Rows
from paddleship.data.row_validation import RowValidator, content_hash
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.plots import charts
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.computing.features import Features
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Example, Preprocess
from paddleship.stage.frame import main

_FEW = 50  # held-out rows


def prepare(params: Params) -> Report:
    """Read the raw data, clean and split it, and write Parquet with the schema of its preprocessing."""
    watched.require(params, "data.reader", "data.functions")
    watched.require_files(params)
    begun = chain.begin(params, "prepare")
    kind, validator = task_kinds.get(params.data.task), RowValidator.of(params)
    splits, counts = dataset.clean(dataset.read_raw(params.data, validator.text_columns), params.data, validator)
    schema = dataset.describe(splits, params)
    folder = Path(params.paths.prepared)
    with new_folder(folder) as beside:
        dataset.write(splits, schema, beside)
        preprocess, config, specs = dataset.read_preprocess(beside)
        written = {split: dataset.read(beside, split) for split in dataset.SPLITS}
        examples = {split: dataset.encode(preprocess, rows) for split, rows in written.items()}
        labels = {split: rows.labels for split, rows in written.items() if rows.labelled}
        if labels:
            kind.labels.require(labels["train"], params.data.class_names)
        profile.write(profile.make(Features(specs, config), examples["train"], written["train"].columns), beside)
        begun.seal(beside)
    contents = {split: rows.hashes(validator.identity) for split, rows in written.items()}
    leaks, normalised = _in_two_parts(contents), _normalised(preprocess, written)
    truncated = truncation.find(preprocess, written.values())
    missing = missing_numbers.count(preprocess, [rows.columns for rows in written.values()], params.data)
    alike = _repeats_after_encoding(examples)
    near = near_repeats.find(*_parts([spec.name for spec in preprocess.requests], written))
    lengths = [max(array.shape[0] if array.ndim else 1 for array in example.values()) for example in examples["train"]]
    facts = {
        "data_sha256": schema["data_sha256"],
        "rows": {split: len(rows) for split, rows in written.items()},
        "dropped": counts.facts(),
        "near_repeats": near.facts,
        "truncated": truncated.facts,
        **({"filled": missing.facts} if missing.columns else {}),
        "length": dict(
            zip(("p50", "p90", "p99", "max"), np.percentile(lengths, [50, 90, 99, 100]).round().astype(int).tolist(), strict=True)
        ),
    }
    reports = Path(params.paths.reports)
    (reports / "prepare").mkdir(parents=True, exist_ok=True)  # an out also without a picture
    shown = []
    if labels:
        plotted = kind.labels.plotted(labels["train"])
        shown.append(charts.histogram(plotted, reports, "prepare/labels.png", title="Labels of training rows", unit=str(params.data.label)))
        facts |= kind.labels.facts(labels["train"], params.data.class_names)
    if len(set(lengths)) > 1:
        shown.append(charts.histogram(lengths, reports, "prepare/length.png", title="Length of training rows", unit="elements"))
    notes = f"; {len(near.pairs):,} held-out rows nearly repeat training rows" if near.pairs else ""
    notes += f"; {missing.filled:,} missing number{'s' * (missing.filled != 1)} filled" if missing.filled else ""
    notes += f"; {alike} held-out rows look the same to the model as training rows" if alike else ""
    return Report(
        stage="prepare",
        headline=f"{counts}, {leaks} leaks{notes}",
        metrics={
            **{f"{split}_rows": len(rows) for split, rows in written.items()},
            "raw_rows": counts.rows,
            "unusable_rows": counts.unusable,
            "leaked_rows": leaks,
            "alike_rows": alike,
            "near_repeat_rows": len(near.pairs),
            "normalised_rows": normalised,
            "truncated_rows": truncated.rows,
            **({"filled_numbers": missing.filled} if missing.columns else {}),
        },
        verdict=Verdict(checks=checks(contents)),
        findings=counts.findings(params.data.unusable_share)
        + (kind.labels.findings(labels, params.data.class_names) if labels else [])
        + near.findings(params.data.near_repeat_share)
        + truncated.findings()
        + missing.findings()
        + _few(written),
        facts=facts,
        pictures=shown,
    )


def _few(written: Mapping[str, Rows]) -> list[Finding]:
    """A note if what is said about held-out rows rests on few of them."""
    few = {split: len(written[split]) for split in ("validation", "test") if len(written[split]) < _FEW}
    if not few:
        return []
    message = f"{' and '.join(f'{count} {split}' for split, count in few.items())} rows: scores and flip rates have wide intervals"
    return [Finding("few-rows", "note", message, "give more rows, or raise data.test and data.validation")]


def _parts(names: Sequence[str], written: Mapping[str, Rows]) -> list[dict[str, list[Any]]]:
    """The columns that the model gets, of the training rows and of the held-out rows."""
    parts = [[written["train"]], [written["validation"], written["test"]]]
    return [{name: [value for rows in part for value in rows.columns[name]] for name in names} for part in parts]


def checks(contents: Mapping[str, set[str]]) -> list[Check]:
    """The same content (by hash) must not be in two parts."""
    return [Check.at_most("leaked_rows", _in_two_parts(contents), 0, advice="a row is in two parts: report it as a defect")]


def _in_two_parts(contents: Mapping[str, set[str]]) -> int:
    return sum(len(one & other) for one, other in combinations(contents.values(), 2))


def _repeats_after_encoding(examples: Mapping[str, Sequence[Example]]) -> int:
    """Held-out rows that equal a training row after encoding, because they differ only in what the model does not read."""
    known = {_encoded(example) for example in examples["train"]}
    return sum(_encoded(example) in known for split in ("validation", "test") for example in examples[split])


def _encoded(example: Example) -> str:
    return content_hash([example[name] for name in sorted(example)])


def _normalised(preprocess: Preprocess, parts: Mapping[str, Rows]) -> int:
    """Rows whose text the preprocess changes, such as another Unicode form, or other spaces."""
    texts = [one for one in preprocess.encoders if one.request.dtype == "str"]
    rows = (row for part in parts.values() for row in zip(*(part.columns[one.column] for one in texts), strict=True))
    return sum(any(one.same(text) != text for one, text in zip(texts, row, strict=True)) for row in rows)


if __name__ == "__main__":
    main(prepare)
