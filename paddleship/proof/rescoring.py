"""Score the eager model again on the rows that `train` scored: what is proven must be what was trained.

Where rows have no labels, it must answer them as it did then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paddleship.config.params import Params
from paddleship.data import dataset
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.errors import BadInput
from paddleship.model import building, recorded_answers
from paddleship.model.eager import Eager, SourceModel
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.preprocess import Batch, Preprocess
from paddleship.system.isolate import Isolated

SPLITS = ("validation", "test")


@dataclass(frozen=True)
class Rescored:
    """The score of one part of the rows: what `train` recorded, and what eager has now."""

    split: str
    rows: int
    recorded: float
    now: float


@dataclass(frozen=True)
class Answered:
    """How many of the rows of a part without labels are answered differently from what `train` recorded."""

    split: str
    rows: int
    differing: int


def rescore(params: Params, preprocess: Preprocess) -> list[Rescored | Answered]:
    """Score the validation and the test rows with the eager model of the checkpoint. Raises BadInput without what `train` recorded."""
    checkpoint, kind = Path(params.paths.checkpoint), task_kinds.get(params.data.task)
    labelled = params.data.label is not None
    scores = _recorded(checkpoint) if labelled else {}
    answers = {} if labelled else recorded_answers.read(checkpoint)
    found: list[Rescored | Answered] = []
    with Isolated("eager", Eager, SourceModel.of(params), timeout_s=params.verify.timeout_s) as eager:
        for split in SPLITS:
            rows = dataset.read(Path(params.paths.prepared), split)
            outputs = [next(iter(eager.call("run", batch).values())) for batch in _batches(preprocess, rows, params.train.batch_size)]
            if labelled:
                found.append(Rescored(split, len(rows), scores[split], kind.score.of(kind.joined(outputs), rows.labels)))
            else:
                differing = recorded_answers.differing(answers[split], kind.joined(outputs))
                found.append(Answered(split, len(answers[split]), differing))
    return found


def checks(rescored: Sequence[Rescored | Answered], *, task: str, min_score: float | None) -> list[Check]:
    """Each score must be the one that `train` recorded, and that of the validation rows must reach train.min_score."""
    return [
        *(_same(one, task) if isinstance(one, Rescored) else _answered(one) for one in rescored),
        *(
            Check.at_least("rescored_validation", one.now, min_score, advice="the model is worse than train.min_score: run train again")
            for one in rescored
            if isinstance(one, Rescored) and one.split == "validation" and min_score is not None
        ),
    ]


def _answered(one: Answered) -> Check:
    advice = (
        f"eager answers {one.differing:,} of {one.rows:,} {one.split} rows differently from what train recorded: checkpoint, code or data "
        "are not those of then; run `paddleship run --again train`"
    )
    return Check.at_most(f"rescored_{one.split}_differing_rows", one.differing, 0, advice=advice)


def _same(one: Rescored, task: str) -> Check:
    limit = task_kinds.get(task).score.tolerance(one.rows, one.recorded)
    advice = (
        f"eager scores {one.now:.4g} on the {one.rows:,} {one.split} rows, but train recorded {one.recorded:.4g}: "
        "checkpoint, code, data or classes are not those of the training; run `paddleship run --again train`"
    )
    difference = 0.0 if np.isnan(one.now) and np.isnan(one.recorded) else abs(one.now - one.recorded)
    return Check.at_most(f"rescored_{one.split}_difference", difference, limit, advice=advice)


def _recorded(folder: Path) -> Mapping[str, float]:
    try:
        scores = json.loads((folder / building.FACTS).read_text(encoding="utf-8"))["scores"]
        return {split: float(scores[split]) for split in SPLITS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder / building.FACTS} has no scores of the training ({type(error).__name__}: {error}): run `paddleship run --again train`"
        ) from None


def _batches(preprocess: Preprocess, rows: dataset.Rows, size: int) -> Iterator[Batch]:
    examples = dataset.encode(preprocess, rows)
    for start in range(0, len(examples), size):
        yield preprocess.collate(examples[start : start + size])
